"""``rebalance-sim init``: a commented scenario file to begin with."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import OK
from rebalance_sim.cli.output import say, write_text

if TYPE_CHECKING:
    from rebalance_sim.scenarios.drafts.draft import Draft

_CLIENTS, _TOPIC, _DOWN_MS = 3, "orders:12", 10_000
_PROTOCOL = (
    "The clients are Java's with group.protocol=consumer (KIP-848); --kind classic has Kafka's "
    "default, classic."
)
_NO_MEMBERS = (
    "No members are printed, so that their number is a guess; --clients says how many there are."
)
_NO_SUBSCRIPTIONS = (
    "Kafka's tools print no subscriptions: every member subscribes to every topic of the group."
)


def init(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not be there yet.")],
    clients: Annotated[int | None, typer.Option(min=1, help="How many consumers.")] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME:PARTITIONS, or NAME:PARTITIONS:RECORDS_PER_SECOND of each partition; may be "
            "repeated."
        ),
    ] = None,
    static: Annotated[bool, typer.Option("--static", help="Give each an instance id.")] = False,
    kind: Annotated[
        str | None,
        typer.Option(help="java, librdkafka, franz, classic, librdkafka-classic or franz-classic."),
    ] = None,
    from_properties: Annotated[
        Path | None, typer.Option(help="A consumer.properties to take the clients' settings from.")
    ] = None,
    from_describe: Annotated[
        Path | None,
        typer.Option(
            help="What kafka-consumer-groups.sh --describe [--members --verbose] [--state] and "
            "kafka-configs.sh --describe print, in one file."
        ),
    ] = None,
    deploy: Annotated[
        str | None, typer.Option(help="Restart all clients: rolling, or at-once.")
    ] = None,
    pods: Annotated[
        int | None, typer.Option(min=1, help="In so many pods, one after the other.")
    ] = None,
    down_ms: Annotated[
        int, typer.Option(min=1, help="How long a pod takes from its stop to its start.")
    ] = _DOWN_MS,
) -> int:
    """Write a commented scenario: a group, its topics, and a deployment of it, to edit and run.

    Without any option it asks, if it can.
    """
    from rebalance_sim.scenarios.drafts.draft import Deployment, text_of
    from rebalance_sim.scenarios.scenario import parse_scenario

    if file.exists():
        raise BadInput(f"init: {file} is there already; give another name")
    given = (clients, topic, kind, from_properties, from_describe, deploy, pods)
    if not static and all(one is None for one in given) and sys.stdin.isatty():
        clients = typer.prompt("How many consumers", default=_CLIENTS, type=int)
        topic = [typer.prompt("Topic, as NAME:PARTITIONS", default=_TOPIC)]
        static = typer.confirm("Are they static members", default=False)
        deploy = typer.prompt("A deployment: rolling, at-once or none", default="rolling")
        deploy = None if deploy == "none" else deploy
    if deploy not in (None, "rolling", "at-once"):
        raise BadInput(f"init: --deploy {deploy!r} is neither rolling nor at-once")
    draft = _draft(file.stem, clients, topic, static, kind, from_properties, from_describe)
    deployment = None
    if deploy is not None:
        count = len(draft.client_names())
        if pods is not None and pods > count:
            raise BadInput(f"init: --pods {pods} is more than there are consumers ({count})")
        deployment = Deployment(pods=pods or count, down_ms=down_ms, at_once=deploy == "at-once")
    elif pods is not None:
        raise BadInput("init: --pods are those of a deployment; give --deploy rolling as well")
    text = text_of(draft, deployment)
    parse_scenario(text)
    write_text(file, text)
    say(f"{file}: {len(draft.client_names())} consumers, {_topics(draft)}")
    for note in (*draft.remarks, *_left_out(draft)):
        say(f"  {note}")
    say(f"  next: rebalance-sim run {file} --plot {file.with_suffix('.html')}")
    return OK


def _draft(
    name: str,
    clients: int | None,
    topic: list[str] | None,
    static: bool,
    kind: str | None,
    from_properties: Path | None,
    from_describe: Path | None,
) -> Draft:
    from rebalance_sim.scenarios.drafts.described import read_described
    from rebalance_sim.scenarios.drafts.draft import Draft
    from rebalance_sim.scenarios.drafts.properties import read_properties

    topics = [_topic(one) for one in topic or ()]
    shared: dict[str, Any] = {}
    draft = Draft(name=name, topics=topics, clients=())
    if from_properties is not None:
        settings = read_properties(from_properties)
        shared |= settings.client
        draft = replace(
            draft,
            network=settings.network,
            not_modelled=settings.not_modelled,
            remarks=settings.remarks,
        )
    members: list[dict[str, Any]] = []
    if from_describe is not None:
        group = read_described(from_describe)
        if not topics:
            rows = group.topics.items()
            topics = [{"name": one, "partition_count": count} for one, count in rows]
        members = [{**shared, **member} for member in group.members]
        shared.setdefault("group_id", group.group_id)
        draft = replace(
            draft,
            config=group.config,
            brokers=group.brokers,
            remarks=(*draft.remarks, _NO_SUBSCRIPTIONS if members else _NO_MEMBERS),
            not_modelled=(*draft.not_modelled, *group.not_modelled),
        )
    topics = topics or [_topic(_TOPIC)]
    names = [one["name"] for one in topics]
    if not members or clients is not None:
        count = _CLIENTS if clients is None else clients
        members = [{"name": "app", "count": count, "topics": names, **shared}]
        if static or "instance_id" in shared:
            members[0]["instance_id"] = shared.get("instance_id", "app")
        if kind is None and "kind" not in shared:
            draft = replace(draft, remarks=(*draft.remarks, _PROTOCOL))
    if kind is not None:
        members = [{**one, "kind": kind} for one in members]
    group_id = shared.get("group_id")
    members = [{**one, "group_id": group_id} if group_id else one for one in members]
    return replace(draft, topics=topics, clients=members)


def _topic(text: str) -> dict[str, Any]:
    name, *numbers = text.split(":")
    if len(numbers) not in (1, 2) or not all(number.isdigit() for number in numbers):
        raise BadInput(f"init: --topic {text!r} is not NAME:PARTITIONS[:RECORDS_PER_SECOND]")
    keys = ("partition_count", "records_per_second")
    return {"name": name, **dict(zip(keys, map(int, numbers), strict=False))}


def _topics(draft: Draft) -> str:
    return ", ".join(f"{one['name']} with {one['partition_count']}" for one in draft.topics) + (
        " partitions"
    )


def _left_out(draft: Draft) -> list[str]:
    if not draft.not_modelled:
        return []
    return [f"not modelled, and left out: {', '.join(draft.not_modelled)}"]
