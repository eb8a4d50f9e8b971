"""A table of bad inputs: each is one line that names the place and the remedy, with exit code 2.

Every row is a command line, and what its line says. Words before ``|`` name the place or the value
at fault, those behind it the remedy. The folder has ``good.toml``, a scenario; ``calm.toml``, a
profile; ``folder``, which is empty; ``full``, which is that of something else; ``binary.toml``, which is no text; and ``empty.toml`` and
``empty.jsonl``.
"""

# ruff: noqa: E501  (a row is a line)

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Outcome

import rebalance_sim as rs

Call = Callable[..., Outcome]

FILES = """
run missing.toml                     => missing.toml: cannot be read | give a TOML file
run folder                           => folder: cannot be read | give a TOML file
run binary.toml                      => binary.toml: cannot be read: is not a UTF-8 text | TOML
run empty.toml                       => empty.toml: 5 keys are missing | name, world.seed
run broken.toml                      => broken.toml: is not valid TOML | line 1
run good.toml missing.toml           => missing.toml: cannot be read | give a TOML file
run good.toml --profile calm --seed 1 => run: | give either a scenario file, or both
run good.toml good.toml --trace t.jsonl => --trace, --metrics and --plot | give one scenario
run good.toml --semantics kafka-4.1  => --semantics | a scenario file names its own
run --profile missing.toml --seed 1  => missing.toml: cannot be read | give a TOML file
run --profile binary.toml --seed 1   => binary.toml: cannot be read | TOML
run --profile empty.toml --seed 1    => empty.toml: 13 keys are missing | sizes.clients
run --profile folder --seed 1        => no profile 'folder' | known: applications
run good.toml --trace good.toml      => --trace good.toml is good.toml, which is read | another file
run --profile calm.toml --seed 1 --metrics calm.toml => --metrics calm.toml is calm.toml | another
run good.toml --trace new.svg --plot new.svg => --plot new.svg is that of --trace | give another
replay missing.jsonl --svg missing.jsonl => --svg missing.jsonl is missing.jsonl | give another
replay missing.jsonl --svg new.png   => --svg new.png: the diagram is SVG | in .svg
replay empty.jsonl                   => empty.jsonl: has no step | give the file of run --trace
regress good.toml --junit new --json new => --json new is that of --junit | give another file
regress good.toml --junit good.toml  => --junit good.toml is good.toml, which is read | another
regress good.toml --update --lock no/x.json => cannot write no/x.json | there is no folder no
replay missing.jsonl                 => missing.jsonl: cannot be read | give the file of run --trace
replay missing.json                  => missing.json: cannot be read | check the path
replay folder                        => no case study 'folder' | known: basic
replay basics                        => no case study 'basics' | did you mean 'basic'?
replay basic --around 3              => basic is not the trace of a run | (.jsonl)
conformance missing                  => missing: cannot be read | check the path
conformance good.toml                => good.toml: line 1 | fetch it again
conformance folder                   => folder | has no *.json file
generate --profile folder --seed 1   => no profile 'folder' | known: applications
shrink missing.toml --out n.toml     => missing.toml: cannot be read | give a TOML file
shrink good.toml --out good.toml     => --out good.toml is the scenario itself | give another file
shrink good.toml --out calm.toml     => --out calm.toml exists | give another file, or --force
shrink good.toml --out folder/x/y    => cannot write folder/x/y | give another file
shrink good.toml --out n.toml        => the run ends ok | only a failing one can be shrunk
experiment missing.toml --out new    => missing.toml: cannot be read | give a TOML file
experiment folder --out new          => folder: cannot be read | give a TOML file
experiment good.toml --out new       => good.toml: name: unknown key 'name' | known: base
shrink --profile calm.toml --seed 1 --force --out calm.toml => --out calm.toml is calm.toml | another
hunt --profile calm --runs 1 --corpus full => full has other content and no hunt.json | give a new
defects mut-early-grant --out full   => full: has other content | give a new folder
defects mut-early-grant --out s3://b/x => --out s3:/b/x is no folder of this machine | give one
explore --out s3://b/x               => --out s3:/b/x is no folder of this machine | give one
diff s3:b/x folder                   => s3:b/x | write s3://, with two slashes
regress missing                      => missing: cannot be read | give a TOML file
regress folder                       => folder: has no scenario | (*.toml)
regress binary.toml                  => binary.toml: cannot be read | TOML
extend missing --to 5                => missing/plan.json (No such file | is it a sweep?
extend good.toml --to 5              => good.toml | is it a sweep?
report folder                        => folder/plan.json | is it a sweep?
compact folder                       => folder/plan.json | is it a sweep?
diff folder folder                   => folder/plan.json | is it a sweep?
diff missing missing                 => missing/plan.json | is it a sweep?
defects --out good.toml              => --out good.toml is a file | give a folder
"""

NAMES = """
run --profile fualty --seed 1              => no profile 'fualty' | did you mean 'faulty'?
run --profile '' --seed 1                  => '' names no profile | as in faulty@kafka-4.1+eager
run --profile faulty@ --seed 1             => 'faulty@' names no profile | write profile, profile@
run --profile faulty@kafka-4.2 --seed 1    => no semantics 'kafka-4.2' | did you mean 'kafka-4.
run --profile faulty+eagre --seed 1        => no protocol 'eagre' | did you mean 'eager'?
run --profile faulty+eager+x --seed 1      => 'faulty+eager+x' names no profile | write profile
run --profile faulty~KAFKA-0 --seed 1      => no repair of 'KAFKA-0' in kafka-4.4 | known: D12
run --profile calm --seed 1 --semantics x  => no semantics 'x' | known: kafka-4.1
run --profile calm --seed 1 --repair X-1   => no repair of 'X-1' | kafka-4.4
run --profile calm --seed 1 --plugin       => '--plugin' requires an argument | the name of a module
run --profile calm --seed 1 --plugin a.py  => plug-in 'a.py' | give the name of a module
run --profile calm --seed 1 --set world.seed=9 => world.seed | is the seed of the run
run --profile calm --seed 1 --set timings.session_timeout_ms=[1] => calm: makes no scenario of seed 1 | heartbeat_interval_ms must be >= 1
run --profile nokind.toml --seed 1         => nokind.toml: faults[0]: key 'kind' is missing | add it
run --profile twice.toml --seed 1          => twice.toml: faults: 'broker_crash' | name each of them once
run --profile calm --seed 1 --expect ok    => --expect 'ok' | write known:ISSUE
run --profile calm --seed 1 --fail-on odd  => --fail-on 'odd' | known: fatal-clients, idle-clients, known,
run --profile calm --seed 1 --plugin none  => plug-in 'none' cannot be imported | ModuleNotFoundError
run --profile calm --seed 1 --plot a.gif   => a.gif: no kind of image is '.gif' | choose one of
run --profile calm --seed 1 --plot folder  => folder: no kind of image is '' | choose one of
run --profile calm --seed 1 --plot no/a.svg => cannot write no/a.svg | give another file
run --profile calm --seed 1 --trace folder => cannot write folder | give another file
run --profile calm --seed 1 --metrics no/x => cannot write no/x | give another file
defects KAFKA-0                            => no defect 'KAFKA-0' | did you mean
compare --profile calm --seeds 0:2 --out new --protocols eager => protocols eager | two or more of
compare --profile calm --seeds 0:2 --out new --protocols '' => protocols none | two or more of
compare --profile calm --seeds 0:2 --out new --protocols eager,lazy => 'lazy' | known: consumer-r
compare --profile calm --seeds 0:2 --out new --protocols eager,eager => calm+eager | each of them once
compare --profile calm --seeds 0:2 --out new --fail-on unproven => --fail-on 'unproven' | known, not-judged
compare --profile calm --seeds 0:2 --out new --base lazy => base 'lazy' | choose one of the compared
compare --profile calm --seeds 0:2 --out new --timeline-seed 9 => timeline seed 9 | one of the seeds
swepe                                      => No such command 'swepe' | Did you mean 'sweep'
run --sed 1                                => No such option: --sed | --seed
profiles extra                             => unexpected extra argument | (extra)
report                                     => Missing argument | 'folder'
generate --profile calm                    => Missing option | '--seed'
run --profile calm                         => run: | give either a scenario file, or both
regress                                    => regress: | give scenario files, or --profile
regress --profile clam --seeds 3           => no profile 'clam' | did you mean 'calm'?
regress good.toml --fresh-from x           => --fresh-from and --time-budget-s | go with --fresh
regress good.toml --time-budget-s 9        => --fresh-from and --time-budget-s | go with --fresh
hunt --profile calm --runs 1 --corpus new --master local => a master and settings | backend spark
regress --seeds 3                          => regress: --seeds | are those of a --profile
"""

NUMBERS = """
run --profile calm --seed x               => '--seed' | a valid integer
run --profile calm --seed 1.5             => '--seed' | a valid integer
run --profile calm --seed -1              => '--seed' | greater than or equal to 0
run --profile calm --seed 9223372036854775808 => '--seed' | less than or equal to
run --profile calm --seed 1 --metrics-interval-ms 0 => '--metrics-interval-ms' | equal to 1
SWEEP --seeds x                           => seed range 'x' | write first:end, as in 0:2000
SWEEP --seeds 4:0                         => seed range 4:0 | the first seed must be below the end
SWEEP --seeds -1:4                        => seed range '-1:4' | write first:end
SWEEP --seeds 0:99999999999999999999      => seed range '0:9 | write first:end
SWEEP --seeds 0:2 --batch 0               => batch size 0 | give between 1 and
SWEEP --seeds 0:2 --batch -1              => batch size -1 | give between 1 and
SWEEP --seeds 0:2 --memory-limit-mib 0    => memory limit 0 MiB | give at least 1
SWEEP --seeds 0:2 --time-limit-s -1       => time limits -1 s | give a soft limit above 0
SWEEP --seeds 0:2 --time-budget soon      => --time-budget 'soon' | as in 2h
SWEEP --seeds 0:2 --time-budget 0s        => time budget 0 s | give more than 0
SWEEP --seeds 0:2 --retry everything      => retry 'everything' | crash, hang, memory, timeout
SWEEP --seeds 0:2 --stop-after 0          => '--stop-after' | greater than or equal to 1
SWEEP --seeds 0:2 --traces -1             => '--traces' | greater than or equal to 0
SWEEP --seeds 0:2 --metrics-seeds -1      => '--metrics-seeds' | greater than or equal to 0
SWEEP --seeds 0:2 --master local[1]       => master 'local[1]' | leave one of the two out
SWEEP --seeds 0:2 --conf spark.x=1        => spark.x | leave one of the two out
SWEEP --seeds 0:2 --runner os             => runner 'os' | write module:function
SWEEP --seeds 0:2 --runner :run           => runner ':run' | write module:function
SWEEP --seeds 0:2 --runner nowhere:run    => nowhere | give module:function
SWEEP --seeds 0:2 --conf x                => --conf 'x' | write spark.name=value
SWEEP --seeds 0:2 --backend dask          => backend 'dask' | choose one of spark, pool
SWEEP --seeds 0:2 --out good.toml         => good.toml is a file | give a folder for --out
SWEEP --seeds 0:2 --out s3:bucket/x       => s3:bucket/x | write s3://, with two slashes
SWEEP --seeds 0:2 --out file://           => --out file:// | write file:///folder
SWEEP --seeds 0:2 --out gopher://x/y      => --out gopher://x/y | give a folder, or file://
sweep --profile calm --seeds 0:2 --out new --master nonsense => 'nonsense' | write local[4]
extend folder --to 0                      => '--to' | greater than or equal to 1
compare --profile calm --seeds 0:2 --out new --timeline-seed -1 => '--timeline-seed' | equal to 0
defects --seeds 0                         => '--seeds' | greater than or equal to 1
defects --processes 0                     => '--processes' | greater than or equal to 1
shrink good.toml --out n.toml --max-runs 0 => '--max-runs' | greater than or equal to 1
SWEEP --seeds 0:2 --time-limit-s inf      => time limits inf s | at most 100_000_000 s
SWEEP --seeds 0:2 --memory-limit-mib 99999999999999 => memory limit | at most 1_000_000_000
regress --profile calm --seeds 3,5:3      => --seeds 5:3 | the first seed must be below the end
regress --profile calm --seeds 0:1000000000000 => --seeds 0:1000000000000 | by 1_000_000 at most
hunt --profile calm --corpus new --minutes nan => minutes: | give more than 0
explore --max-seconds -1                  => '--max-seconds' | greater than or equal to 0
explore --max-seconds nan                 => '--max-seconds' | greater than or equal to 0
regress good.toml --fresh -1              => '--fresh' | greater than or equal to 0
branch good.toml                          => Missing option | '--at'
branch --at 1s                            => branch: | give either a scenario file, or both
branch missing.toml --at 1s               => missing.toml: cannot be read | give a TOML file
branch good.toml --at 5                   => --at '5' | write a time with its unit
branch good.toml --at 0s:5s               => --at '0s:5s' | first:last:step
branch good.toml --at 5s:1s:1s            => --at '5s:1s:1s' | must not be behind the last
branch good.toml --at 0s:5s:0ms           => --at '0s:5s:0ms' | at least 1ms
branch good.toml --at 0s:60m:1ms          => --at '0s:60m:1ms' | at most 1_000 moments
branch good.toml --at 99m                 => --at 5,940.000s: the run ends at | give a moment before
branch good.toml --at 1s --seeds 5:5      => seed range 5:5 | must be below the end
branch good.toml --at 1s --seeds 0:9999999 => 9,999,999 runs are too many | at most 1_000_000
branch good.toml --at 1s --where "lag_max > 1" => no metric 'lag_max' | did you mean
branch good.toml --at 1s --where "deplyo.fences > 1" => no metric 'deplyo.fences' | did you mean
branch good.toml --at 1s --where "fences = 1" => 'fences = 1' | write a metric
branch good.toml --at 1s --property nope  => does not violate 'nope' | nothing
branch good.toml --at 1s --issue nope     => does not show 'nope' | nothing
branch good.toml --at 1s --property a --issue b => branch: | give one of --property, --issue
branch good.toml --at 1s --plot x.html    => x.html: no kind of image is '.html' | choose one of .svg, .png, .pdf
branch good.toml --at 1s --plot no/x.svg  => cannot write no/x.svg | give another file
explore --members 0                       => members: | must lie within [1, 3]
run --profile calm --seed                 => '--seed' | requires an argument
"""

SETTINGS = """
world.seed=-1                              => world | seed must be >= 0, got -1
world.seed="x"                             => world.seed | must be an integer, not a string
world.duration_ms=-5                       => world | duration_ms must be >= 1, got -5
world.duration_ms=0                        => world | duration_ms must be >= 1, got 0
world.duration_ms=1.5                      => world.duration_ms | must be an integer
world.duration_ms=                         => world.duration_ms | write it as in 60_000
world.duration_ms=[                        => world.duration_ms | write it as in 60_000
world.duraton_ms=5                         => world.duraton_ms | did you mean 'duration_ms'?
world.quiet_period_ms=-1                   => world | quiet_period_ms must be >= 0
world.group_id=""                          => world | group_id must not be empty
world.semantics="kafka-9"                  => 'kafka-9' | did you mean 'kafka-4.4'?
world.repairs=["KAFKA-0"]                  => 'KAFKA-0' | known: D12
world.defects=["mut-erly-grant"]           => 'mut-erly-grant' | did you mean 'mut-early-grant'?
world.topics=[]                            => world.clients[0].topics | add it to topics
world.topics[0].partition_count=0          => world.topics[0] | partition_count must be >= 1
world.topics[0].partition_count=1000000000000 => world.topics[0] | must be <= 100_000
world.topics[0].name=""                    => world.topics[0] | name must not be empty
world.topics[9].name="a"                   => world.topics[9].name | there is no [9] among
world.clients[0].topics=["nowhere"]        => world.clients[0].topics: no such topic | add it
world.clients[0].topics=[]                 => world.clients[0].topics | name a topic
world.clients[0].start_ms=-1               => world.clients[0] | start_ms must be >= 0
world.clients[0].start_ms=9999999          => client-00 starts at | must be before duration_ms
world.clients[0].name=""                   => world.clients[0] | name must not be empty
world.clients[1].name="client-00"          => clients: 'client-00' | appears twice
world.clients[0].kind="rust"               => world.clients[0]: kind 'rust' | known are: java
world.clients[0].assignors=["best"]        => assignors: 'best' | known are: range, roundrobin
world.clients[0].assignor="range"          => world.clients[0].assignor | did you mean 'assignors'?
world.clients[0].server_assignor="unifrom" => server_assignor 'unifrom' | did you mean 'uniform'?
world.clients[x].name="a"                  => no path | write keys between dots
world.clients[*].session_timeout=3         => unknown key 'session_timeout' | did you mean
world.config.group_consumer_assignors=["best"] => no assignor 'best' | known: range, uniform
world.config.group_consumer_assignors=[]   => group_consumer_assignors | at least one assignor
world.config.group_consumer_heartbeat_interval_ms=0 => heartbeat_interval_ms | must be >= 1
world.config.group_consumer_session_timeout_ms=1 => session_timeout_ms (1) | must lie within
world.config.group_max_size=0              => group_max_size | must be >= 1, got 0
world.config.group_consumer_heartbeat_ms=1 => unknown key | group_consumer_heartbeat_interval_ms
world.brokers=0                            => world.brokers | must be a table
world.broker_count=3                       => world.broker_count | did you mean 'brokers'?
world.network.latency.min_ms=-1            => world.network.latency | min_ms must be >= 0
world.network.latency.max_ms=0             => max_ms (0) | must be >= min_ms (1)
world.network.loss=2                       => world.network.loss | known: between_racks_ms
world.faults=3                             => world.faults | must be a list
world.faults=[{at_ms=1}]                   => world.faults[0]: key 'kind' is missing | known:
world.faults=[{kind="broker_crush",at_ms=1}] => 'broker_crush' | did you mean 'broker_crash'?
world.faults=[{kind="broker_crash"}]       => 2 keys are missing | world.faults[0].duration_ms
world.faults=[{kind="broker_crash",at_ms=-1,duration_ms=5}] => world.faults[0] | at_ms must be >= 0
world.faults=[{kind="broker_crash",at_ms=1,duration_ms=0}] => world.faults[0] | must be >= 1
world.faults=[{kind="broker_crash",at_ms=1,duration_ms=5,broker=99}] => broker 99 | must lie within
world.faults=[{kind="network_slowdown",at_ms=1,duration_ms=5,factor=2,broker=99}] => world: faults[0]: broker 99 | must lie within
world.faults=[{kind="network_slowdown",at_ms=1,duration_ms=5,factor=2,broker_id=1}] => world.faults[0].broker_id | did you mean 'broker'?
world.faults=[{kind="client_crash",at_ms=1,client="no one",down_ms=5}] => 'no one' | one of the clients
world.faults=[{kind="topic_grow",at_ms=1,topic="no",partition_count=9}] => no such topic: 'no' | add it
world.clients[0].workers=3                    => world.clients[0].workers | must be a table, not an integer
world.clients[0].workers={records_per_second=0} => world.clients[0].workers | records_per_second must be >= 1, got 0
world.clients[0].workers={size=3}             => workers.size: unknown key 'size' | known: commits
world.clients[0].workers={in_flight_max=3}    => world.clients[0].workers | key 'records_per_second' is missing; add it
world.clients[0].listener="no"                => world.clients[0].listener | must be true or false
world.clients[0].on_failure="ignore"          => world.clients[0].on_failure: no such value | known: dead_letter
world.clients[0].transactions=true            => world.clients[0].transactions | must be a table
world.clients[0].transactions={timeout_ms=0}  => transactions.timeout_ms | did you mean 'transaction_timeout_ms'?
world.topics[0].poison_pills=3                => world.topics[0].poison_pills | must be a list
world.topics[0].poison_pills=[{}]             => world.topics[0].poison_pills[0]: key 'effect' is missing | add it
world.brokers.event_processing=3              => world.brokers.event_processing | must be a table
world.brokers.event_processing={join_ms=1}    => event_processing.join_ms | did you mean 'join_group_us'?
world.brokers.load_records_per_second=0       => world.brokers | load_records_per_second must be >= 1, got 0
world.faults=[{kind="rolout",at_ms=9}]        => world.faults[0]: no such kind: 'rolout' | did you mean 'rollout'?
world.faults=[{kind="rollout",at_ms=9,clients=["x"],successors=["y"]}] => faults[0]: client 'x' | is not one of the clients
world.faults=[{kind="rollout",at_ms=9,max_surge=-1}] => world.faults[0] | max_surge must be >= 0, got -1
world.faults=[{kind="rollout",at_ms=9,max_surge=0,max_unavailable=0}] => world.faults[0] | must not both be 0
world.faults=[{kind="lag_autoscaler",at_ms=9}] => world.faults[0].lag_threshold_records | 3 keys are missing
world.faults=[{kind="broker_crash",at_ms=9,broker=0,every_ms=0}] => world.faults[0].every_ms | must be a whole number >= 1
world.faults=[{kind="broker_crash",at_ms=9,broker=0,times=3}] => world.faults[0].times | give every_ms
world.faults=[{kind="broker_crash",at_ms=9,broker=0,every_ms=9,jitter_ms=-5}] => world.faults[0].jitter_ms | must be a whole number >= 0
world.faults=[{kind="network_slowdown",at_ms=9,duration_ms=9,factor=3,broker=99}] => faults[0]: broker 99 | must lie within [0, 0]
world.faults=[{kind="topic_create",at_ms=9,topic="n",partition_count=2,records_per_second=-1}] => world.faults[0] | records_per_second must be >= 0, got -1
phases=3                                   => phases | must be a list, not an integer
phases=[{from_ms=3}]                       => phases[0]: key 'name' is missing | add it
phases=[{name="Deploy"}]                   => phases[0]: name 'Deploy' | write small letters
phases=[{name="a",form_ms=3}]              => phases[0].form_ms | did you mean 'from_ms'?
phases=[{name="a",from_ms=-1}]             => phases[0] | from_ms must be >= 0, got -1
phases=[{name="a",from_ms="soon"}]         => phases[0].from_ms | must be an integer
phases=[{name="a",from_ms=99999999}]       => phases[0] (a): from_ms | before world.duration_ms
phases=[{name="a",until_ms=99999999}]      => phases[0] (a): until_ms | leave it out for the end
phases=[{name="a",from_ms=9,until_ms=9}]   => phases[0]: until_ms | must be above from_ms (9)
phases=[{name="a",until="rset"}]           => phases[0].until: no such value | did you mean 'rest'?
phases=[{name="a"},{name="a",from_ms=9}]   => phases: 'a' | appears twice
phases=[{name="a",until_ms=9},{name="b",from_ms=8}] => phases[1] (b) | phases follow one another
phases=[{name="b",from_ms=8},{name="a"}]   => phases[1] (a): from_ms (0) | phases follow one another
phases.deploy.from_ms=3                    => phases.deploy.from_ms | there is no 'deploy'
max_steps=0                                => max_steps | must be >= 1
max_steps="many"                           => max_steps | must be an integer
wall_budget_ms=1_000                       => wall_budget_ms | unknown key
name=3                                     => name | must be a string
=3                                         => sets nothing | as in world.duration_ms=60_000
max_steps                                  => sets nothing | as in world.duration_ms=60_000
world..seed=1                              => no path | write keys between dots
"""

GATEWAY = """
init new.toml --clients 0            => --clients | greater than or equal to 1
init new.toml --pods 0               => --pods | greater than or equal to 1
init new.toml --topic orders         => --topic 'orders' | NAME:PARTITIONS
init new.toml --topic orders:4:x     => --topic 'orders:4:x' | NAME:PARTITIONS[:RECORDS_PER_SECOND]
init new.toml --topic orders:0       => world.topics[0] | partition_count must be >= 1, got 0
init new.toml --topic orders:4 --kind jva => kind 'jva' is not known | known are: java
init new.toml --topic orders:4 --deploy sideways => --deploy 'sideways' | rolling nor at-once
init new.toml --topic orders:4 --clients 3 --pods 9 --deploy at-once => --pods 9 | consumers (3)
init good.toml --clients 3           => good.toml is there already | give another name
init folder --clients 3              => folder is there already | give another name
init no/x.toml --clients 3           => cannot write no/x.toml | give another file
init new.toml --from-properties missing.properties => missing.properties: cannot be read | give a consumer.properties
init new.toml --from-properties folder => folder: cannot be read | give a consumer.properties
init new.toml --from-properties binary.toml => binary.toml: cannot be read: is not a UTF-8 text | give a consumer.properties
init new.toml --from-properties empty.toml => empty.toml: has no settings | give lines such as
init new.toml --from-properties soon.properties => soon.properties: session.timeout.ms | no whole number
init new.toml --from-describe missing.txt => missing.txt: cannot be read | give what Kafka's tools print
init new.toml --from-describe good.toml => good.toml: has no table of a group | kafka-consumer-groups.sh --describe
init                                 => Missing argument | 'file'
schema good.toml                     => unexpected extra argument | good.toml
serve missing.toml                   => missing.toml: cannot be read | give a TOML file
serve binary.toml                    => binary.toml: cannot be read: is not a UTF-8 text | TOML
serve explode.toml                   => explode.toml: rules[0].action: no such value | known: close
serve late.toml                      => late.toml: rules[0].delay_ms: the action delay_answer | needs delay_ms
serve --port 99999                   => --port | less than or equal to 65535
serve --port -1                      => --port | greater than or equal to 0
serve --topic orders                 => --topic 'orders' | write name=partitions, as in orders=4
serve --topic orders=0               => topics.orders | must be from 1 to 10000, got 0
serve --topic orders=x               => --topic 'orders=x' | write name=partitions
serve --semantics kafka-9            => no semantics 'kafka-9' | did you mean 'kafka-4
serve --defect mut-earl              => no defect 'mut-earl' | did you mean 'mut-early-grant'?
serve --records -1                   => --records | greater than or equal to 0
serve --seconds -1                   => --seconds | greater than or equal to 0
serve --record good.toml             => --record good.toml is a file | give a folder
certify                              => Missing option | '--command'
certify --command ''                 => --command '' | has no {bootstrap}
certify --command 'true {bootstrap} {group}' => --command | has no {topic}
certify --command 'true {bootstrap} {group} {topic} {nope}'    => {nope} stands for nothing | known: {bootstrap}, {group}, {topic}, {instance_id}
certify --command "it's {bootstrap} {group} {topic}"      => a quotation mark is open | close it
certify --command 'no-such {bootstrap} {group} {topic}'   => there is no program 'no-such' | give its path
certify --command 'true {bootstrap} {group} {topic}' --static-command 'true {bootstrap} {group} {topic}' => --static-command | has no {instance_id}
certify --command 'true {bootstrap} {group} {topic}' --scenario 'nope.*' => --scenario 'nope.*' | there is none of: join.one
certify --command 'true {bootstrap} {group} {topic}' --deadline 0 => --deadline | greater than or equal to 1
certify --command 'true {bootstrap} {group} {topic}' --jobs 0    => --jobs | greater than or equal to 1
certify --command 'true {bootstrap} {group} {topic}' --out good.toml => --out good.toml is a file | give a folder
"""

EXPERIMENTS = """
seeds=3                                    => key 'base' is missing | name a profile or a file
base="clam"                                => no profile 'clam' | did you mean 'calm'?
base="calm";seeds=0                        => seeds | must be at least one, got 0
base="calm";seeds="x"                      => seeds: 'x' | write a number, or first:end
base="calm";very={}                        => unknown key 'very' | did you mean 'vary'?
base="calm";protocols=["lazy"]             => no protocol 'lazy' | known: consumer-range
base="calm";semantics=["kafka-9"]          => no semantics 'kafka-9' | did you mean 'kafka-4.4'?
base="calm";metrics=["speed"]              => no metric 'speed' | known: assignment_delay_ms
base="calm";design="gird"                  => no design 'gird' | did you mean 'grid'?
base="calm";vary={a={path="world.x",values=[1]}} => world.x: unknown key 'x' | known: admin
base="calm";metrics=["x"];vary={a={path="world.x",values=[1]}} => world.x: unknown key 'x' | known
base="calm";seeds=9223372036854775808      => seeds | is beyond 64 bits: give a smaller number
base="calm";seeds="1:9223372036854775808"  => seeds | must end at 9_223_372_036_854_775_807 at most
base="calm";design_seed=3                  => design_seed: follow from the values of a grid | leave it
base="calm";vary={a={}}                    => vary.a: says nothing | give path, and values or between
base="calm";vary={a={path=5,values=[1]}}   => vary.a | a path is text, not 5
base="calm";vary={a={paths=[5],values=[1]}} => vary.a | at least one path, as text
base="calm";vary={a={path="world.x",paths=["world.y"],values=[1]}} => vary.a | either path or paths
base="calm";vary={a={path="world.x",values=[1],scale=5}} => vary.a: scale 5 | known: linear, log
base="calm";vary={a={path="world.x",values=[1],scale="log"}} => vary.a | a scale goes with between
base="calm";vary={a={path="world.x",between=5}} => vary.a | two numbers in order
base="calm";vary={a={path="world.x",between=[1,inf]}} => vary.a | two numbers in order
base="calm";vary={a={path="world.seed",values=[1,2]}} => world.seed: is the seed of a run | give seeds
base="calm";vary={a={path="world.x",values=[1]},b={path="world.x",values=[2]}} => vary.b | already: world.x
base="calm";set={"world.x"=1};vary={a={path="world.x",values=[1]}} => vary.a | set or draw already: world.x
base="calm";vary={a={path="world.seed"}}   => vary.a | give either values or between
base="calm";vary={a={path="world.seed",values=[]}} => vary.a | give either values or between
base="calm";vary={a={path="world.seed",between=[5,1]}} => vary.a | two numbers in order
base="calm";vary={a={path="world.duration_ms",values=[-1]}} => duration_ms | must be >= 1
"""


def rows(table: str) -> list[tuple[str, str, str]]:
    """Input, place and remedy of each line."""
    found = []
    for line in table.strip().splitlines():
        given, _, said = line.partition("=> ")
        place, _, remedy = said.partition("|")
        found.append((given.strip(), place.strip(), remedy.strip()))
    return found


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run."""
    (tmp_path / "good.toml").write_text(rs.dump_scenario(rs.generate("calm", 1)))
    (tmp_path / "calm.toml").write_text('extends = "calm"\n')
    fault = '[[faults]]\nkind = "broker_crash"\nprobability = 0.5\n'
    (tmp_path / "twice.toml").write_text(f'extends = "calm"\n{fault}{fault}')
    (tmp_path / "nokind.toml").write_text('extends = "calm"\n[[faults]]\nprobability = 0.5\n')
    (tmp_path / "broken.toml").write_text("[world\n")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "soon.properties").write_text("group.id=g\nsession.timeout.ms=soon\n")
    (tmp_path / "explode.toml").write_text('[[rules]]\naction = "explode"\n')
    (tmp_path / "late.toml").write_text('[[rules]]\naction = "delay_answer"\n')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "plan.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_one_line(outcome: Outcome, place: str, remedy: str) -> None:
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1), outcome
    assert outcome.err.startswith("rebalance-sim: error: ")
    assert "Traceback" not in outcome.err
    assert place and place in outcome.err
    assert remedy and remedy in outcome.err


def test_there_are_enough_rows() -> None:
    tables = (FILES, NAMES, NUMBERS, GATEWAY, SETTINGS, EXPERIMENTS)
    every = [given for table in tables for given, *_ in rows(table)]
    assert len(every) == len(set(every)) >= 300


@pytest.mark.parametrize(
    ("line", "place", "remedy"), rows(FILES + NAMES.strip() + NUMBERS + GATEWAY.strip())
)
def test_a_command_line(call: Call, folder: Path, line: str, place: str, remedy: str) -> None:
    before = sorted(folder.rglob("*"))
    line = line.replace("SWEEP", "sweep --profile calm --backend pool --out new")
    assert_one_line(call(*shlex.split(line)), place, remedy)
    assert sorted(folder.rglob("*")) == before  # nothing is left behind


@pytest.mark.parametrize(("setting", "place", "remedy"), rows(SETTINGS))
def test_a_value_of_a_scenario(call: Call, setting: str, place: str, remedy: str) -> None:
    assert_one_line(call("run", "good.toml", "--set", setting), place, remedy)


@pytest.mark.parametrize(("keys", "place", "remedy"), rows(EXPERIMENTS))
def test_an_experiment(call: Call, folder: Path, keys: str, place: str, remedy: str) -> None:
    (folder / "asked.toml").write_text("\n".join(keys.split(";")) + "\n")
    outcome = call("experiment", "asked.toml", "--backend", "pool", "--out", "new")
    assert_one_line(outcome, place, remedy)
    assert not (folder / "new").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_a_file_that_may_not_be_read(call: Call, folder: Path) -> None:
    (folder / "good.toml").chmod(0)
    assert_one_line(call("run", "good.toml"), "good.toml: cannot be read", "give a TOML file")
