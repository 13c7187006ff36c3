"""What pytest leaves alone here: the site's own Python, which needs Sphinx, and pages that only a build writes."""

collect_ignore_glob = ["conf.py", "_ext/*", "gallery/*", "project/*", "reference/api/*"]
