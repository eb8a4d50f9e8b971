"""What Kafka 4.4.0 changed in the coordinator, beside what 4.3 does.

There are no test sources of 4.4.0: the rows are facts of its byte code, under the names of the
changes.
"""

from __future__ import annotations

from _kafka import Context
from peer import add, same

C = "GroupMetadataManager of 4.4"


def test(method):
    def register(function):
        for version in ("kafka-4.3", "kafka-4.4"):
            is_later = version == "kafka-4.4"
            run = lambda version=version, is_later=is_later: function(version, is_later)  # noqa: E731
            add(C, method, run, "", version)
        return function

    return register


@test("KAFKA-20434")
def _(v, is_later):
    c = Context(v, "foo:1", assignors=("range", "uniform"))
    c.seed(10, {"m": dict(names="foo", assigned="foo:0")}, {"m": "foo:0"}, hash_of="foo")
    c.mocks["uniform"].prepare(m="foo:0")
    c.beat("m", 10, server_assignor="uniform")
    bumped = ["epoch 11 hash foo", "target epoch 11", "current m S 11/10 [foo:0]"]
    same(c.records, ["member m [foo] uniform 5000", *(bumped if is_later else [])])


@test("KAFKA-20442")
def _(v, is_later):
    c = Context(v, "foo:1")
    c.seed(10, {"m": dict(names="foo", assigned="foo:0")}, {"m": "foo:0"}, hash_of="foo")
    c.beat("m", -1)
    gone = ["current x m", "target x m", "member x m", "epoch 11 hash 0"]
    same(c.records, gone + (["target epoch 11"] if is_later else []))
    if is_later:
        same(c.raw[-1].value.assignment_timestamp, 0)


@test("KAFKA-20747")
def _(v, is_later):
    c = Context(v, "foo:1")
    c.seed(10, {"m": dict(names="foo", instance="i")}, {"m": ""}, hash_of="foo")
    c.mock.prepare(m="", n="")
    c.join("m", names="foo", instance_id="j")
    answer = c.join("n", names="foo", instance_id="i")
    same("UNRELEASED_INSTANCE_ID" in answer, not is_later, answer)


@test("KAFKA-20601")
def _(v, is_later):
    c = Context(v, "foo:1", group_consumer_max_size=1)
    c.seed(10, {"m": dict(names="foo", instance="i", epoch=-2)}, {"m": ""}, hash_of="foo")
    c.mock.prepare(n="")
    answer = c.join("n", names="foo", instance_id="i")
    same(answer == "GROUP_MAX_SIZE_REACHED", not is_later, answer)


@test("no redundant target of a static member that returns")
def _(v, is_later):
    c = Context(v, "foo:1 bar:1")
    c.seed(
        10,
        {"m": dict(names="foo", instance="i", epoch=-2, assigned="foo:0")},
        {"m": "foo:0"},
        hash_of="foo",
    )
    c.mock.prepare(n="foo:0")
    c.join("n", names="foo bar", instance_id="i")
    same(c.records.count("target n [foo:0]"), 1 if is_later else 2)
