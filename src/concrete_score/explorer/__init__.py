"""A local page on which a person sets some columns, pixels or letters of a fitted model and sees what follows.

`questions` are what the page may ask, pure functions over `concrete_score.model.Model`; `guard` decides who may ask;
`server` answers on this machine alone; ``page`` holds the files of the page.
"""
