"""Whether an exchange may pass: the rules evaluated over the claims of one phase.

The decision is the strongest effect of the rules that fired, and names all of them. `decide` is `replay` of `context_of`: the
recorded context and the same texts give the same decision. Permits and denies enforce, as in Cedar itself; all other rules
advise, and what `redact` and `review` ask for is done by whoever holds the text.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 — msgspec resolves the annotations of `Ask` at run time
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from demur.errors import ShapeError, UsageError
from demur.model.claim import Claim, ClaimValue, Decision, Effect, FiredRule, Phase, Vocabulary, flat_name
from demur.policy.cedar import Answer, CedarRequest, RuleEngine
from demur.policy.rules import DEFAULT_RULE, Rule, rules_of
from demur.policy.values import cedar_value, is_cedar_value, unlabelled_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from demur.policy.cedar import PolicySource

__all__ = ["Ask", "Default", "EvaluatedContext", "PolicyGate", "load_gate"]

Default: TypeAlias = Literal["allow", "deny"]
# Everything that Cedar is given, as JSON: principal, action, resource, labels, the claims as Cedar sees them, extras, and
# why claims were not sound; `invalid` is made of the names of these.
EvaluatedContext: TypeAlias = dict[str, object]
Extra: TypeAlias = bool | int | str | tuple[str, ...]

_DIALECT_VERSION = 1
_RESERVED = frozenset({"claims", "invalid"})
_LONG_MAX = 2**53 - 1
_DEFAULT_DENY = FiredRule(DEFAULT_RULE, Effect.DENY, "no permit applies")
_NOTHING_FIRED = Decision(Effect.ALLOW, (), ())
_JSON = msgspec.json.Encoder()
_WORDLESS = (bool, dict)  # what a claim is in the context that is no text: yes or no, and a score
_MAX_KEPT = 2048
_MAX_KEPT_CHARS = 1024  # of a context whose result is kept: with `_MAX_KEPT` it bounds the memory of a gate


class Ask(msgspec.Struct, frozen=True):
    """What is known in one phase: claims with their types, or a mapping of names to values; the session and the model."""

    phase: Phase
    claims: tuple[Claim, ...] | Mapping[str, ClaimValue] = ()
    session: str = ""
    model: str = ""
    labels: tuple[str, ...] = ()
    extras: Mapping[str, Extra] = {}
    # Claims that were stated but could not be read, with the reason: left out, they would be absent, and a deny that reads
    # them would not fire.
    unsound: Mapping[str, str] = {}


class _Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of a recorded context."""

    principal: str
    action: Phase
    resource: str
    labels: tuple[str, ...] = ()
    claims: dict[str, object]
    extras: dict[str, object] = {}
    errors: dict[str, str] = {}


class _Unlabelled(msgspec.Struct, frozen=True):
    """A claim of which nothing is known but its name and value."""

    name: str
    value: ClaimValue
    type: None = None
    sensitive: bool = False


class _InPhase(msgspec.Struct, frozen=True):
    """A phase: its word, the claims that its rules read, and those of them that may quote a text."""

    word: str
    needed: tuple[str, ...]
    doubtful: tuple[str, ...]


def load_gate(
    sources: Sequence[PolicySource], *, default: Default = "allow", vocabulary: Vocabulary | None = None
) -> PolicyGate:
    """Return the gate of a policy set; raise `PolicyError` where a text is not sound or no rule is in it."""
    if default not in ("allow", "deny"):
        raise UsageError(f"`{default}` is no default", hint="choose allow or deny")
    texts = [source.text.replace("\r\n", "\n") for source in sources]
    facts = {"default": default, "dialect": _DIALECT_VERSION, "sources": texts}
    policy_digest = sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()
    return PolicyGate(rules_of(sources), default=default, vocabulary=vocabulary, digest=policy_digest)


class PolicyGate:
    """A policy set, parsed once, that decides."""

    __slots__ = (
        "_asked",
        "_by_key",
        "_declared",
        "_kept",
        "_permits",
        "_phases",
        "_private",
        "_read",
        "_scopes",
        "_sees_principal",
        "_sees_resource",
        "default",
        "digest",
        "rules",
        "vocabulary",
    )

    def __init__(
        self, rules: tuple[Rule, ...], *, default: Default, vocabulary: Vocabulary | None, digest: str
    ) -> None:
        self.rules = rules
        self.default: Default = default
        self.vocabulary = vocabulary
        self.digest = digest
        self._by_key = {rule.key: rule for rule in rules}
        self._read = frozenset(name for rule in rules for name in rule.reads)
        self._permits = frozenset(rule.key for rule in rules if rule.effect is Effect.ALLOW)
        self._sees_principal = any("principal" in rule.sees for rule in rules)
        self._sees_resource = any("resource" in rule.sees for rule in rules)
        self._declared = {spec.flat: spec.type for spec in (vocabulary.specs if vocabulary else ())}
        self._private = frozenset(spec.flat for spec in (vocabulary.specs if vocabulary else ()) if spec.sensitive)
        self._phases: dict[Phase, _InPhase] = {}
        for phase in Phase:
            # A rule whose scope names another phase can never fire in this one.
            needed = sorted({name for rule in rules if phase in rule.phases for name in rule.reads})
            doubtful = [name for name in needed if name in self._private or name not in self._declared]
            self._phases[phase] = _InPhase(phase.value, tuple(needed), tuple(doubtful))
        self._asked = RuleEngine({rule.key: rule.tree for rule in rules})
        self._kept = lru_cache(_MAX_KEPT)(self._asked.answer)
        # The same rules without their conditions, to ask which ones apply to a request at all.
        self._scopes = RuleEngine({rule.key: replace(rule.tree, clauses=()) for rule in rules})

    def decide(self, ask: Ask) -> Decision:
        """Return what is to be done, with every rule that fired and every error met."""
        return self._decided(*self._recorded(ask))

    def decide_on_record(self, ask: Ask) -> tuple[Decision, str]:
        """Return what is to be done, and what was evaluated for it as the JSON of `context_of`."""
        made, quoted = self._recorded(ask)
        return self._decided(made, quoted), _JSON.encode(made).decode()

    @property
    def kept(self) -> int:
        """How many of Cedar's results are kept."""
        return self._kept.cache_info().currsize

    def context_of(self, ask: Ask) -> EvaluatedContext:
        """Return exactly what is evaluated for an ask, as JSON for the record."""
        made, _ = self._recorded(ask)
        return {
            "principal": made.principal,
            "action": made.action.value,
            "resource": made.resource,
            "labels": list(made.labels),
            "claims": made.claims,
            "extras": made.extras,
            "errors": made.errors,
        }

    def replay(self, context: Mapping[str, object] | str) -> Decision:
        """Return the decision on a recorded context, an object or its JSON; raise `ShapeError` where it is none."""
        try:
            if isinstance(context, str):
                made = msgspec.json.decode(context, type=_Recorded)
            else:
                made = msgspec.convert(context, _Recorded)
        except msgspec.DecodeError as exc:
            what = str(exc)[:1].lower() + str(exc)[1:]
            raise ShapeError(f"no recorded context: {what}", hint="expected what `context_of` gave") from exc
        # A claim that the gate never writes like this was withheld from the record or forged, so it is not sound.
        strange = {n: "withheld, or no value of the gate's" for n, v in made.claims.items() if not is_cedar_value(v)}
        if strange:
            claims = {name: value for name, value in made.claims.items() if name not in strange}
            made = msgspec.structs.replace(made, claims=claims, errors={**made.errors, **strange})
        return self._decide(made, made.claims)

    def reads(self, phase: Phase) -> Mapping[Effect, frozenset[str]]:
        """Return which claims the rules of each effect read in a phase: the names as policies write them."""
        names: dict[Effect, set[str]] = {}
        for rule in self.rules:
            if phase in rule.phases:
                names.setdefault(rule.effect, set()).update(rule.reads)
        return {effect: frozenset(read) for effect, read in names.items()}

    def _recorded(self, ask: Ask) -> tuple[_Recorded, set[str]]:
        """Return what is evaluated, and the names of the claims that say of themselves that they quote."""
        claims, errors, quoted = self._claims(ask)
        made = _Recorded(
            principal=_unicode(ask.session),
            action=ask.phase,
            resource=_unicode(ask.model),
            labels=tuple(sorted({_unicode(label) for label in ask.labels})) if ask.labels else (),
            claims=claims,
            extras=_extras(ask.extras) if ask.extras else {},
            errors=errors,
        )
        return made, quoted

    def _claims(self, ask: Ask) -> tuple[dict[str, object], dict[str, str], set[str]]:
        """Return the values by flat name, why others are not sound, and which quote; none has a value and is not sound."""
        values: dict[str, object] = {}
        errors = {flat_name(name): _unicode(why) for name, why in ask.unsound.items()} if ask.unsound else {}
        quoted: set[str] = set()
        declared, private = self._declared, self._private
        stated = (
            ask.claims
            if isinstance(ask.claims, tuple)
            else [_Unlabelled(name, value) for name, value in ask.claims.items()]
        )
        for claim in stated:
            name, value = flat_name(claim.name), claim.value
            if claim.sensitive:
                quoted.add(name)
            # What carries a text enters the record only where a rule reads it.
            if value is None or ((claim.sensitive or name in private) and name not in self._read):
                continue
            kind = declared.get(name) or claim.type
            try:
                coerced = cedar_value(value, kind) if kind else unlabelled_value(value)
            except ValueError as exc:
                errors[name] = str(exc)
                continue
            held = values.setdefault(name, coerced)
            if held is not coerced and held != coerced:
                errors[name] = "stated twice, with different values"
        names = sorted(values)
        if errors:
            sound = {name: values[name] for name in names if name not in errors}
            return sound, dict(sorted(errors.items())), quoted
        # An audit's claims come in this order.
        return values if names == list(values) else {name: values[name] for name in names}, errors, quoted

    def _decided(self, made: _Recorded, quoted: set[str]) -> Decision:
        """Return the decision by the claims that can matter; where one of them may quote, Cedar's result is not kept."""
        # Rules read claims one by one (see `tree`), so claims that no rule of the phase reads cannot matter and are not
        # sent to Cedar; `replay` sends all of them.
        here, stated = self._phases[made.action], made.claims
        claims = {name: stated[name] for name in here.needed if name in stated}
        keep = not quoted or quoted.isdisjoint(claims)
        if here.doubtful:
            # A claim may hold a user's text if it is declared so, or is a text that nobody has declared.
            keep = keep and not any(
                name in self._private or (name not in self._declared and not isinstance(claims[name], _WORDLESS))
                for name in here.doubtful
                if name in claims
            )
        return self._decide(made, claims, keep=keep)

    def _decide(self, asked: _Recorded, claims: Mapping[str, object], *, keep: bool = False) -> Decision:
        given = {**asked.extras, "claims": claims, "invalid": sorted(asked.errors) if asked.errors else ()}
        context = _JSON.encode(given).decode()
        # A principal that no rule looks at is left out, so that all sessions share one kept result.
        request = CedarRequest(
            asked.principal if self._sees_principal else "",
            self._phases[asked.action].word,
            asked.resource if self._sees_resource else "",
            context,
            asked.labels if self._sees_principal else (),
        )
        keep = keep and len(context) <= _MAX_KEPT_CHARS
        answer = self._kept(request) if keep else self._asked.answer(request)
        if not (answer.held or answer.broken or answer.refused or asked.errors) and self.default == "allow":
            return _NOTHING_FIRED
        unsound: frozenset[str] = frozenset()
        if asked.errors:
            # A rule that reads an unsound claim counts as fired if its scope fits: an error must never be an allow.
            fitting = self._scopes.answer(msgspec.structs.replace(request, context="{}")).held
            unsound = frozenset(r.key for r in self.rules if r.key in fitting and r.reads & asked.errors.keys())
        return self._combine(answer, unsound, asked.errors)

    def _combine(self, answer: Answer, unsound: frozenset[str], errors: Mapping[str, str]) -> Decision:
        messages = [f"claim `{name}`: {why}" for name, why in errors.items()]
        messages += [f"rule `{self._by_key[key].id}`: {why}" for key, why in sorted(answer.broken.items())]
        messages += answer.refused
        permits = self._permits
        # What cannot be evaluated fires if it denies or advises, and permits nothing if it permits.
        fired = (answer.held - (unsound & permits)) | ((answer.broken.keys() | unsound) - permits)
        named = [self._by_key[key].fired for key in self._by_key if key in fired]
        if answer.refused:
            # A request that Cedar could not be asked about is denied.
            return Decision(Effect.DENY, _strongest_first(named), tuple(messages))
        if self.default == "deny" and not fired & permits:
            named.append(_DEFAULT_DENY)
        effect = max((rule.effect for rule in named), default=Effect.ALLOW)
        return Decision(effect, _strongest_first(named), tuple(messages))


def _strongest_first(rules: Iterable[FiredRule]) -> tuple[FiredRule, ...]:
    return tuple(sorted(rules, key=lambda rule: -rule.effect))


def _extras(given: Mapping[str, Extra]) -> dict[str, object]:
    """Return what the caller adds to the context; raise if a name is reserved or Cedar has no such value."""
    made: dict[str, object] = {}
    for name, value in given.items():
        if name in _RESERVED:
            raise UsageError(f"`{name}` is the gate's own", hint="name the context's attribute otherwise")
        if isinstance(value, int) and abs(value) > _LONG_MAX:
            raise UsageError(f"`{name}` is too large a number", hint="pass it as a text")
        if isinstance(value, tuple):
            made[name] = [_unicode(element) for element in value]
        else:
            made[name] = _unicode(value) if isinstance(value, str) else value
    return made


def _unicode(text: str) -> str:
    """Return a text that JSON can carry."""
    # Half a surrogate pair is escaped rather than replaced, so that two different texts stay different.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
