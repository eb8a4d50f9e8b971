"""All of a small scope: every order in which a few members and their coordinator can act.

``scope`` says what is to be explored and within which bounds; ``explorer`` explores it breadth
first, over ``member_states`` and ``coordinator_states``, whose machines are those of ``protocol``;
``judge`` and ``state_facts`` say what is wrong; ``verdict`` is what came of it, and ``scenario_of``
makes a scenario for a run of the simulator from a counterexample.
"""
