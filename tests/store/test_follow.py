"""Following hands out what is new, once, whatever happens to the file meanwhile."""

import os
import shutil
import time

from sample_rows import rows_of, write

from gssr.store.read.follow import Follower


def test_following_hands_out_every_row_once_and_in_order(tmp_path):
    rows = rows_of(400, 2)
    path = tmp_path / "a.sql"
    follower = Follower(str(path), ["sm_active"])
    assert follower.poll().state == "waiting"
    writer = write(path, rows[:200], 2, finish=False)
    seen = []
    news = follower.poll(limit=70)
    while news.rows:
        seen += news.rows
        news = follower.poll(limit=70)
    assert len(seen) == 200 and news.state == "running" and not news.more
    for row in rows[200:]:
        writer.add([row])
        writer.tick(row[1])
        seen += follower.poll().rows
    writer.finish(rows[-1][1], 3, "failed", rows[-1][1])
    news = follower.poll()
    seen += news.rows
    assert [row[:2] for row in seen] == [(row[0], row[1]) for row in rows]
    assert news.state == "failed" and news.run is not None and news.run.exit_code == 3


def test_following_a_shared_filesystem_gives_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("gssr.store.write.create.journal_mode", lambda _path: "TRUNCATE")
    monkeypatch.setattr("gssr.store.read.follow.journal_mode", lambda _path: "TRUNCATE")
    test_following_hands_out_every_row_once_and_in_order(tmp_path)


def test_a_replaced_file_is_followed_from_its_beginning(tmp_path):
    path = tmp_path / "a.sql"
    write(path, rows_of(20, 1), 1)
    follower = Follower(str(path), [])
    assert len(follower.poll().rows) == 20
    path.unlink()
    assert follower.poll().state == "waiting"
    write(tmp_path / "b.sql", rows_of(30, 1), 1)
    (tmp_path / "b.sql").rename(path)
    assert len(follower.poll().rows) == 30


def test_a_replacement_is_noticed_though_it_got_the_same_inode(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "gssr.store.read.follow.journal_mode", lambda _path: "TRUNCATE"
    )  # it is opened afresh for each look
    path = tmp_path / "a.sql"
    write(path, rows_of(20, 1), 1)
    follower = Follower(str(path), [])
    assert len(follower.poll().rows) == 20
    path.unlink()
    write(path, rows_of(30, 1, seed=1)[5:], 1)
    monkeypatch.setattr(follower, "_inode", (path.stat().st_dev, path.stat().st_ino))
    assert len(follower.poll().rows) == 25


def test_what_a_killed_writer_left_half_done_does_not_hold_up_its_followers(tmp_path, monkeypatch):
    for module in ("write.create", "read.follow"):
        monkeypatch.setattr(f"gssr.store.{module}.journal_mode", lambda _path: "TRUNCATE")
    writer = write(tmp_path / "a.sql", rows_of(50, 2), 2, finish=False)
    writer._connection.execute("PRAGMA cache_size=1")
    writer._connection.execute("BEGIN IMMEDIATE")
    writer._connection.execute("UPDATE samples SET sm_active = 99")
    (tmp_path / "copy").mkdir()
    follower = Follower(str(tmp_path / "copy" / "a.sql"), ["sm_active", "of_a_later_version"])
    for seconds, found in ((0.0, (0, "running")), (3600.0, (100, "lost"))):
        for name in ("a.sql", "a.sql-journal"):
            shutil.copyfile(tmp_path / name, tmp_path / "copy" / name)
            os.utime(tmp_path / "copy" / name, (time.time() - seconds,) * 2)
        news = follower.poll()
        assert (len(news.rows), news.state) == found
    assert all(row[2] is None or row[2] < 1 for row in news.rows) and {row[3] for row in news.rows} == {None}
    writer._connection.execute("ROLLBACK")
