"""Codecs: the way between a user's data and states, one file a kind of data."""

from concrete_score.codecs.base import Codec as Codec
from concrete_score.codecs.base import codec_from_json as codec_from_json
from concrete_score.codecs.base import codec_of as codec_of
from concrete_score.codecs.image import ImageCodec as ImageCodec
from concrete_score.codecs.inference import TableOptions as TableOptions
from concrete_score.codecs.sequence import SequenceCodec as SequenceCodec
from concrete_score.codecs.table import TableCodec as TableCodec
