"""A log is opened by its URL."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.log.sample_batches import plain_batch

from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import InvalidRequest
from log_tier.open import open_log


async def test_a_file_url_opens_an_embedded_log(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    url = f"file://{str(folder).replace(' ', '%20')}"
    log = await open_log(url)
    try:
        assert isinstance(log, EmbeddedLog)
        topic = await log.create_topic("flights", partitions=1)
        await log.append(topic.partition(0), plain_batch("a"))
    finally:
        await log.close()
    assert (folder / "log" / "duramen.json").exists()
    log = await open_log(url)
    try:
        assert await log.topics() == [topic]
    finally:
        await log.close()


@pytest.mark.parametrize("url", ["", "/data", "file://", "file://elsewhere/data", "grpc://", "kafkaesque://x", "data"])
async def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="names no log"):
        await open_log(url)


@pytest.mark.parametrize("url", ["s3://me:QXZQ@host/ns", "kafak://host/ns?sasl.password=QXZQ", "host?x&QXZQ"])
async def test_the_error_of_a_url_that_names_no_log_has_no_secret(url: str) -> None:
    with pytest.raises(InvalidRequest, match="names no log") as caught:
        await open_log(url)
    assert "QXZQ" not in caught.value.message


@pytest.mark.parametrize("url", ["kafka://me:QXZQ@[host", "kafka://me:QXZQ@a\u2100b", "kafka://me:12/QXZQ@host/ns"])
async def test_the_error_of_a_url_that_cannot_be_split_has_no_secret(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await open_log(url)
    assert "QXZQ" not in caught.value.message
