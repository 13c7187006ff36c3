"""Data: from files, names and Python tables to integer states, and back."""

from concrete_score.data.codec import Rows as Rows
from concrete_score.data.codec import TableCodec as TableCodec
from concrete_score.data.frame import Column as Column
from concrete_score.data.frame import Form as Form
from concrete_score.data.frame import Frame as Frame
from concrete_score.data.frame import Numbers as Numbers
from concrete_score.data.frame import join as join
from concrete_score.data.named import data_sets as data_sets
from concrete_score.data.native import as_frame as as_frame
from concrete_score.data.options import TableOptions as TableOptions
from concrete_score.data.read import read_file as read_file
from concrete_score.data.source import load_table as load_table
from concrete_score.data.splits import Splits as Splits
from concrete_score.data.splits import load_splits as load_splits
from concrete_score.data.write import to_csv as to_csv
from concrete_score.data.write import write_parts as write_parts
from concrete_score.data.write import write_table as write_table
