"""Names and messages on a page are text, whatever they say, and logs have names of their own."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from sample_plans import a_plan

from rebalance_sim.scenarios.documents.document import Document, Heading, Table
from rebalance_sim.spark import job
from rebalance_sim.spark.reports.markdown import markdown


def test_a_table_of_a_report_has_no_html_from_a_name() -> None:
    name = "client <script>alert(1)</script> & | more"
    page = markdown(Document(name, [Heading(name), Table([["seen"], [name]])]))
    assert "<script>" not in page
    assert "client &lt;script>alert(1)&lt;/script> &amp; \\| more" in page


def test_the_log_of_a_remote_sweep_lies_in_a_folder_that_no_one_else_can_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Elsewhere:
        def location(self, name: str) -> str:
            return f"s3://bucket/{name}"

    monkeypatch.setattr(job, "open_store", lambda out: Elsewhere())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    one, other = (job._log_file("s3://bucket", a_plan()) for _ in range(2))
    assert one.parent != other.parent
    assert stat.S_IMODE(one.parent.stat().st_mode) == 0o700
