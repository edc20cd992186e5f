"""Recourse training on sentences, where a change is one word for another (Ross et al., 2021, B.4)."""

from turnabout.studies.sentences.reviews import antonyms, phrases, sentences
from turnabout.studies.sentences.sentence_pare import Replacement, SentencePare

__all__ = ["Replacement", "SentencePare", "antonyms", "phrases", "sentences"]
