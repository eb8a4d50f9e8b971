        self._full_every = full_every
        self._next_full = full_every
        self._seen = 0
        self._invariants = [
            chosen(self.model)
            for chosen in properties
            if chosen.kind is Kind.ALWAYS
            and chosen.applies_to(view.semantics)
            and (view.has_data_plane or not chosen.needs_data_plane)
        ]
        self._of_states = [i for i in self._invariants if i.judges_states()]
        self._listeners = Listeners(self._invariants, self.visits)
        self._client_kinds = tuple(dict.fromkeys(i.client_kinds for i in self._of_states))
        self._on = self._listeners.of
        mixed = [invariant for invariant in self._invariants if invariant.judges_mixed]
        self._on_mixed = Listeners(mixed, self.visits).of
        """Whom a step of a consumer group with classic members concerns."""
        self._ledgers = self.model.ledgers
        of_kinds = ListenersOfKinds(self._listeners)
        self._classic = ClassicWatch(
            self.model, of_kinds, self._listeners, self._ask, self._ask_about
        )
        clients = ClientWatch(
            self.model,
            self.liveness.quiet,
            of_kinds,
            self._on,
            self._classic,
            self._ask,
            self._ask_about,
        )
        self._on_released = self._on["on_released"]
        self._handlers: Mapping[StepKind, Callable[[Step], None]] = {
            StepKind.COORDINATOR_REQUEST: self._request,
            StepKind.COORDINATOR_TIMER: self._timer,
            StepKind.COORDINATOR_LOADED: self._loaded,
            StepKind.COORDINATOR_UNLOADED: self._unloaded,
            StepKind.LOG_COMMITTED: self._committed,
            StepKind.LOG_TRUNCATED: self._truncated,
            StepKind.RESPONSE_RELEASED: self._released,
            StepKind.CLIENT_EVENT: clients.on_event,
            StepKind.CLIENT_STARTED: clients.on_started,
            StepKind.CLIENT_CRASHED: clients.on_crashed,
            StepKind.METADATA_CHANGED: self._metadata,
            StepKind.FAULT: self._fault,
            StepKind.CONFIG_CHANGED: self._configs,
            StepKind.ADMIN_RETURNED: _ignore,
            StepKind.COORDINATOR_WRITTEN: self._written,
            StepKind.COORDINATOR_ESCAPED: self._escaped,
        }

    # -- what hosts call -------------------------------------------------------------------

    def after_step(self, step: Step) -> None:
        """Look at a step that has just happened."""
        if self.is_stopped:
            return
        self.model.step_index = step.index
        self._handlers[step.kind](step)
        self._seen += 1
        if self._seen >= self._next_full and self._full_every:
            self.check_fully(step)

    def at_end(self) -> None:
        """The run is over."""

    def check_fully(self, step: Step) -> None:
        """Let every property about a state judge the whole world."""
        self.full_count += 1
        ledger = self.model.acting_ledger()
        is_mixed = ledger is not None and ledger.classic_count > 0
        size = len(ledger.members) + len(ledger.owner) if ledger else 0
        self._next_full = self._seen + max(self._full_every, FULL_STEPS_PER_ENTRY * size)
        views = {kinds: ViewOfKinds(self._view, kinds) for kinds in self._client_kinds}
        for invariant in self._of_states:
            if is_mixed and not invariant.judges_mixed:
