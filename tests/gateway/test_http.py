"""A gateway over HTTP: what tests in any language ask of it and tell it."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from http.client import HTTPConnection
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from real_clients import consumer, gateway, read, until

from rebalance_sim import Gateway


def ask(broker: Gateway, method: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"http://{broker.bootstrap}{path}", data, method=method)
    with urlopen(request, timeout=10) as answer:
        return json.load(answer)


def refused(broker: Gateway, method: str, path: str, body: object = None) -> tuple[int, str]:
    with pytest.raises(HTTPError) as problem:
        ask(broker, method, path, body)
    return problem.value.code, json.load(problem.value)["error"]


def test_a_test_drives_a_gateway_and_sees_what_became_of_its_group():
    with gateway(topics={}) as broker:
        assert ask(broker, "POST", "/topics/orders", {"partitions": 4}) == {}
        rule = {"api": "OffsetCommit", "nth": 2, "action": "delay_commit", "delay_ms": 500}
        (added,) = ask(broker, "POST", "/rules", rule)
        assert (added["api"], added["delay_ms"], added["hits"]) == ("OffsetCommit", 500, 0)
        values = [f"{number}" for number in range(8)]
        ask(broker, "POST", "/topics/orders/records", {"values": values})
        ask(broker, "POST", "/topics/orders/records", {"values": ["last"], "partition": 3})
        client = consumer(broker, "consumer")
        assert read([client], 9) == {*(v.encode() for v in values), b"last"}
        ends = {"0": 2, "1": 2, "2": 2, "3": 3}
        until(lambda: ask(broker, "GET", "/groups/g")["committed"] == {"orders": ends})
        seen = ask(broker, "GET", "/groups/g")
        assert (seen["state"], len(seen["members"]), seen["not_judged"]) == ("Stable", 1, [])
        assert ask(broker, "GET", "/rules")[0]["hits"] == 1
        assert ask(broker, "DELETE", "/rules") == []
        ask(broker, "POST", "/move_coordinator", {"load_ms": 100})
        ask(broker, "POST", "/close_connections", {"client_id": "*"})
        until(lambda: ask(broker, "GET", "/groups/g")["state"] == "Stable")
        trace = ask(broker, "GET", "/groups/g/trace")
        assert "restart_broker" in {step["op"] for step in trace["steps"]}
        client.close()
        ask(broker, "DELETE", "/topics/orders")
        about = ask(broker, "GET", "/")
        assert about == {"violations": [], "bugs": [], "topics": {}, "groups": ["g"]}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "problem"),
    [
        ("POST", "/rules", {"action": "clos"}, 400, "did you mean 'close'"),
        ("POST", "/rules", {"rule": 1}, 400, "the keys of a rule"),
        ("POST", "/rules", [], 400, "an object of JSON"),
        ("POST", "/topics/orders", {"partitions": 1}, 400, "has 4 partitions, and cannot have"),
        ("POST", "/topics/a b", {"partitions": 1}, 400, "is no name of a topic"),
        ("POST", "/topics/orders/records", {"values": [1]}, 400, "a list of texts"),
        ("POST", "/topics/none/records", {"values": []}, 404, "there is no topic 'none'"),
        ("POST", "/topics/orders/records", {"values": ["x"], "partition": 9}, 400, "and no 9"),
        ("POST", "/move_coordinator", {"load_ms": -1}, 400, "0 or more"),
        ("POST", "/move_coordinator", {"load": 1}, 400, "load is none of"),
        ("GET", "/groups/g/trace", None, 404, "no trace of 'g'"),
        ("GET", "/nothing", None, 404, "there is no GET /nothing"),
    ],
)
def test_what_will_not_do_is_said_in_a_line(method, path, body, status, problem):
    with gateway() as broker:
        code, said = refused(broker, method, path.replace(" ", "%20"), body)
        assert code == status
        assert problem in said
        assert "\n" not in said
        broker.assert_ok()


def test_a_body_may_come_in_chunks():
    with gateway(topics={}) as broker:
        host, port = broker.bootstrap.split(":")
        connection = HTTPConnection(host, int(port), timeout=10)
        connection.request("POST", "/topics/orders", iter([b'{"parti', b'tions": 3}']))
        assert connection.getresponse().status == 200
        assert ask(broker, "GET", "/")["topics"] == {"orders": 3}


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n", b"GARBAGE\r\n\r\n", b"G" * 200_000, b"POST /rules HTTP/1.1\r\n"
     b"Content-Length: 9999999999\r\n\r\n", b"PUT\r\nContent-Length: 2\r\n\r\n{]",
     b"POST /rules HTTP/1.1\r\nContent-Length: " + b"9" * 5_000 + b"\r\n\r\n"],
)  # fmt: skip
def test_half_a_request_or_none_at_all_does_no_harm(data):
    with gateway() as broker:
        host, port = broker.bootstrap.split(":")
        with socket.create_connection((host, int(port))) as client:
            client.settimeout(5)
            with suppress(ConnectionError):
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65_536):
                    pass
        assert ask(broker, "GET", "/")["bugs"] == []
