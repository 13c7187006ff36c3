"""Reports: what a fitted model is worth, as one page to read."""

from concrete_score.report.html import Finding as Finding
from concrete_score.report.html import Section as Section
from concrete_score.report.page import render as render
from concrete_score.report.page import write_report as write_report
from concrete_score.report.subject import Subject as Subject
