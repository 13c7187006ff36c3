"""Data as they come: files of any registered format, named data sets, and Python objects."""

from concrete_score.data.catalog import data_sets as data_sets
from concrete_score.data.catalog import load as load
from concrete_score.data.formats import Format as Format
from concrete_score.data.formats import read_file as read_file
from concrete_score.data.formats import write_file as write_file
from concrete_score.data.frame import Form as Form
from concrete_score.data.frame import Frame as Frame
from concrete_score.data.frame import as_frame as as_frame
from concrete_score.data.images import Images as Images
from concrete_score.data.sequences import Sequences as Sequences
from concrete_score.data.streams import Stream as Stream
from concrete_score.data.streams import stream_batches as stream_batches
from concrete_score.data.streams import stream_files as stream_files
