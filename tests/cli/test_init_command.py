"""``rebalance-sim init``: scenario files to begin with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Outcome

from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import load_scenario
from rebalance_sim.sim.client.client_spec import OffsetReset

Call = Callable[..., Outcome]

PROPERTIES = """\
bootstrap.servers=kafka:9092
group.id = payments
max.poll.interval.ms=120000
partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor
session.timeout.ms: 30000
auto.offset.reset=earliest
enable.auto.commit=false
reconnect.backoff.ms=100
"""
DESCRIBED = """\

GROUP     TOPIC    PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST       CLIENT-ID
payments  orders   0          10              10              0    app-1-aaaa   /10.0.0.1   app
payments  orders   2          10              12              2    app-2-bbbb   /10.0.0.2   app
payments  refunds  0          -               0               -    -            -          -

GROUP     CONSUMER-ID  GROUP-INSTANCE-ID  HOST       CLIENT-ID  #PARTITIONS  ASSIGNMENT
payments  app-1-aaaa   pod-1              /10.0.0.1  app        1            orders(0)
payments  app-2-bbbb   pod-2              /10.0.0.2  app        1            orders(2)
payments  app-3-cccc   pod-3              /10.0.0.3  spare      0            -

GROUP     COORDINATOR (ID)  ASSIGNMENT-STRATEGY  STATE   #MEMBERS
payments  kafka:9092  (1)   range                Stable  3

Dynamic configs for group payments are:
  consumer.session.timeout.ms=30000 sensitive=false synonyms={}
  share.auto.offset.reset=earliest sensitive=false synonyms={}
"""
DESCRIBED_BY_TOOLS = Path(__file__).parent / "described"


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("consumer.properties").write_text(PROPERTIES)
    Path("described.txt").write_text(DESCRIBED)
    return tmp_path


def test_a_rolling_deploy_of_static_consumers_is_written_and_runs(call: Call, at: Path) -> None:
    asked = ("--clients", "6", "--static", "--topic", "orders:12:5", "--deploy", "rolling")
    outcome = call("init", "deploy.toml", *asked, "--pods", "3", "--down-ms", "20000")
    assert (outcome.code, outcome.err) == (0, "")
    assert "rebalance-sim run deploy.toml --plot deploy.html" in outcome.out
    scenario = load_scenario("deploy.toml")
    world = scenario.world
    assert [client.instance_id for client in world.clients] == [f"app-0{i}" for i in range(6)]
    assert world.data_plane
    assert [(fault.at_ms, fault.clients) for fault in world.faults] == [
        (60_000, ("app-00", "app-01")),
        (90_000, ("app-02", "app-03")),
        (120_000, ("app-04", "app-05")),
    ]
    assert "group.protocol=consumer" in outcome.out
    result = run(scenario)
    assert result.outcome == "ok"
    assert result.metrics["clients_started"] == 6
    # Six consumers with two partitions each are away for 20 s, and until they have joined.
    assert 240_000 <= result.metrics["deploy.unowned_partition_ms"] <= 264_000
    text = Path("deploy.toml").read_text()
    assert "# Pod 3 of 3" in text
    assert text.count("# how many partitions it has") == 1


def test_a_group_of_which_no_lag_is_known_keeps_up_with_its_topics(call: Call, at: Path) -> None:
    """10,000 records a second each: with 100 ms for each poll of 500 they would fall behind."""
    assert call("init", "busy.toml", "--clients", "2", "--topic", "orders:10:2000").code == 0
    scenario = load_scenario("busy.toml")
    assert {one.processing_ms for one in scenario.world.clients} == {25}
    assert run(scenario).metrics["lag_records_at_end"] < 20_000


def test_settings_of_a_properties_file_are_taken_or_named(call: Call, at: Path) -> None:
    outcome = call("init", "own.toml", "--from-properties", "consumer.properties")
    assert outcome.code == 0
    assert "not modelled, and left out: bootstrap.servers" in outcome.out
    assert "group.protocol is not set, and so classic" in outcome.out
    world = load_scenario("own.toml").world
    client = world.clients[0]
    assert (client.kind, client.group_id) == ("classic", "payments")
    assert client.assignors == ("cooperative-sticky",)
    assert (client.max_poll_interval_ms, client.session_timeout_ms) == (120_000, 30_000)
    assert client.auto_offset_reset is OffsetReset.EARLIEST
    assert not client.enable_auto_commit
    assert world.network.reconnect_backoff_ms == 100
    assert "# Not modelled, and left out: bootstrap.servers." in Path("own.toml").read_text()


def test_settings_of_the_other_protocol_are_left_out_and_named(call: Call, at: Path) -> None:
    Path("consumer.properties").write_text(PROPERTIES + "group.protocol=consumer\n")
    outcome = call("init", "own.toml", "--from-properties", "consumer.properties")
    assert "session.timeout.ms is a setting of the classic protocol" in outcome.out
    client = load_scenario("own.toml").world.clients[0]
    assert (client.kind, client.session_timeout_ms) == ("java", 45_000)


def test_a_group_that_commits_itself_commits_in_the_file_too(call: Call, at: Path) -> None:
    """Without a commit, every partition that moves is read again or skipped."""
    Path("consumer.properties").write_text("enable.auto.commit=false\ngroup.protocol=consumer\n")
    topic = ("--clients", "3", "--topic", "orders:6:50")
    outcome = call("init", "own.toml", "--from-properties", "consumer.properties", *topic)
    assert "no setting says when the application commits: every 5 s" in outcome.out
    scenario = load_scenario("own.toml")
    assert {one.manual_commit_interval_ms for one in scenario.world.clients} == {5_000}
    assert all(one.commits_when_revoked for one in scenario.world.clients)
    metrics = run(scenario).metrics
    assert metrics["partition_moves"] > 0
    assert metrics["records_skipped"] < 6 * 50, "less than a second of each partition"


def test_a_group_that_reads_what_is_committed_can_begin_without_transactions(
    call: Call, at: Path
) -> None:
    Path("consumer.properties").write_text("isolation.level=read_committed\n")
    outcome = call("init", "own.toml", "--from-properties", "consumer.properties")
    assert (outcome.code, outcome.err) == (0, "")
    assert "isolation.level is left out: no topic here has records of transactions" in outcome.out


def test_values_that_kafka_takes_and_no_scenario_has_are_named(call: Call, at: Path) -> None:
    Path("consumer.properties").write_text(
        "partition.assignment.strategy=com.acme.Own\nauto.offset.reset=by_duration:PT1H\n"
    )
    outcome = call("init", "own.toml", "--from-properties", "consumer.properties")
    assert (outcome.code, outcome.err) == (0, "")
    named = "auto.offset.reset=by_duration:PT1H, partition.assignment.strategy=com.acme.Own"
    assert f"not modelled, and left out: {named}" in outcome.out
    assert load_scenario("own.toml").world.clients[0].kind == "classic"


def test_settings_of_brokers_are_taken_and_those_of_topics_are_named(call: Call, at: Path) -> None:
    Path("described.txt").write_text(
        DESCRIBED
        + "Dynamic configs for topic orders are:\n"
        + "  min.insync.replicas=3 sensitive=false synonyms={}\n"
        + "All configs for broker 1 are:\n"
        + "  offsets.topic.num.partitions=12 sensitive=false synonyms={}\n"
        + "  min.insync.replicas=2 sensitive=false synonyms={}\n"
    )
    outcome = call("init", "own.toml", "--from-describe", "described.txt")
    assert "left out: share.auto.offset.reset, min.insync.replicas\n" in outcome.out
    brokers = load_scenario("own.toml").world.brokers
    assert (brokers.offsets_partition_count, brokers.min_insync_replicas) == (12, 2)


def test_a_group_without_members_says_that_their_number_is_a_guess(call: Call, at: Path) -> None:
    table = "GROUP TOPIC PARTITION CURRENT-OFFSET CONSUMER-ID\npayments orders 1 4 -\n"
    Path("described.txt").write_text(table)
    outcome = call("init", "own.toml", "--from-describe", "described.txt")
    assert outcome.code == 0
    assert "number is a guess" in outcome.out
    assert "--kind classic" in outcome.out


def test_a_described_group_has_its_members_topics_and_settings(call: Call, at: Path) -> None:
    outcome = call("init", "group.toml", "--from-describe", "described.txt")
    assert outcome.code == 0
    assert "share.auto.offset.reset" in outcome.out
    world = load_scenario("group.toml").world
    assert {topic.name: topic.partition_count for topic in world.topics} == {
        "orders": 3,
        "refunds": 1,
    }
    assert [(one.name, one.instance_id) for one in world.clients] == [
        ("app", "pod-1"),
        ("app-2", "pod-2"),
        ("spare", "pod-3"),
    ]
    assert {one.group_id for one in world.clients} == {"payments"}
    assert {(one.kind, one.assignors) for one in world.clients} == {("classic", ("range",))}
    assert world.config.group_consumer_session_timeout_ms == 30_000
    assert world.config.group_consumer_min_session_timeout_ms == 30_000
    assert run(load_scenario("group.toml")).outcome == "ok"


def test_a_consumer_group_that_a_broker_described_keeps_dynamic_members_dynamic(
    call: Call, at: Path
) -> None:
    """As the tools of Kafka 4.3.1 printed it: one member is static, and the other one's cell blank;
    settings at their defaults are not named."""
    outcome = call(
        "init", "group.toml", "--from-describe", str(DESCRIBED_BY_TOOLS / "consumer.txt")
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert "left out: controller.listener.names\n" in outcome.out
    assert "every member subscribes to every topic" in outcome.out
    world = load_scenario("group.toml").world
    assert {one.name: one.partition_count for one in world.topics} == {"orders": 6, "refunds": 2}
    assert [(one.name, one.instance_id) for one in world.clients] == [
        ("app", "pod-1"),
        ("other", None),
    ]
    assert {(one.kind, one.server_assignor, one.group_id) for one in world.clients} == {
        ("java", None, "new")
    }
    assert world.config.group_consumer_session_timeout_ms == 7_000
    assert run(load_scenario("group.toml")).outcome == "ok"


def test_a_classic_group_stays_one_though_its_table_has_a_column_of_epochs(
    call: Call, at: Path
) -> None:
    outcome = call("init", "group.toml", "--from-describe", str(DESCRIBED_BY_TOOLS / "classic.txt"))
    assert (outcome.code, outcome.err) == (0, "")
    world = load_scenario("group.toml").world
    assert {(one.kind, one.assignors) for one in world.clients} == {("classic", ("range",))}
    assert sorted(one.instance_id or "" for one in world.clients) == ["pod-1", "pod-2"]


def test_a_bound_that_was_printed_stands_and_words_are_settings_too(call: Call, at: Path) -> None:
    Path("described.txt").write_text(
        DESCRIBED
        + "  group.consumer.migration.policy=DISABLED sensitive=false synonyms={}\n"
        + "  group.consumer.min.session.timeout.ms=1000 sensitive=false synonyms={}\n"
    )
    assert call("init", "own.toml", "--from-describe", "described.txt").code == 0
    config = load_scenario("own.toml").world.config
    assert config.group_consumer_min_session_timeout_ms == 1_000
    assert config.group_consumer_migration_policy == "disabled"


def test_both_may_be_given(call: Call, at: Path) -> None:
    both = ("--from-properties", "consumer.properties", "--from-describe", "described.txt")
    assert call("init", "both.toml", *both, "--deploy", "at-once").code == 0
    world = load_scenario("both.toml").world
    assert len(world.clients) == 3
    assert {one.max_poll_interval_ms for one in world.clients} == {120_000}
    assert [fault.clients for fault in world.faults] == [()]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("described.txt",), "described.txt is there already"),
        (("a.toml", "--deploy", "sideways"), "neither rolling nor at-once"),
        (("a.toml", "--pods", "2"), "give --deploy"),
        (("a.toml", "--clients", "2", "--deploy", "rolling", "--pods", "3"), "more than there are"),
        (("a.toml", "--clients", "0"), "--clients"),
        (("a.toml", "--topic", "orders"), "NAME:PARTITIONS"),
        (("a.toml", "--topic", "orders:many"), "NAME:PARTITIONS"),
        (("a.toml", "--topic", "orders:0"), "partition_count must be >= 1"),
        (("a.toml", "--topic", "a b:1"), "is no topic"),
        (("a.toml", "--kind", "jaba"), "jaba"),
        (("a.toml", "--from-properties", "nothing.properties"), "nothing.properties"),
        (("a.toml", "--from-properties", "bad-number.properties"), "is no whole number"),
        (("a.toml", "--from-properties", "bad-choice.properties"), "is not modelled"),
        (("a.toml", "--from-properties", "bad-truth.properties"), "enable.auto.commit"),
        (("a.toml", "--from-properties", "bad-escape.properties"), "bad-escape.properties"),
        (("a.toml", "--from-properties", "empty.properties"), "has no settings"),
        (("a.toml", "--from-describe", "consumer.properties"), "no table of a group"),
        (("a.toml", "--from-describe", "two.txt"), "several groups (a, b)"),
        (("a.toml", "--from-describe", "members.txt"), "has no topics"),
        (("nowhere/a.toml", "--clients", "2"), "cannot write nowhere/a.toml"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    call: Call, at: Path, arguments: tuple[str, ...], named: str
) -> None:
    Path("bad-number.properties").write_text("max.poll.interval.ms=soon\n")
    Path("bad-choice.properties").write_text("auto.offset.reset=erliest\n")
    Path("bad-truth.properties").write_text("enable.auto.commit=perhaps\n")
    Path("bad-escape.properties").write_text("group.id=\\u12\n")
    Path("empty.properties").write_text("# nothing\n")
    table = "GROUP TOPIC PARTITION CONSUMER-ID\n{0} orders 0 -\n"
    Path("two.txt").write_text(table.format("a") + "\n" + table.format("b"))
    Path("members.txt").write_text("GROUP CONSUMER-ID HOST CLIENT-ID\na app-1 /10.0.0.1 app\n")
    outcome = call("init", *arguments)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert named in outcome.err
    assert not Path("a.toml").exists()
