"""Which class counts as a yes: class names that read as a yes or as a no, and labels that contradict the class."""

from __future__ import annotations

import re
import unicodedata
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from turnabout.errors import ModelError, ProblemError

if TYPE_CHECKING:
    from turnabout.models.model import Model

Sense = Literal["good", "bad"]

FEW = 250  # background people of either label who are looked at
BEYOND_CHANCE = -3.0  # standard errors of the AUC below one half from which labels contradict a class


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_NO = _listed(
    "no not non never none without false nein nicht kein keine pas sans sin sem senza nao nee niet geen nej nei inte "
    "ikke nie bez нет не 아니오"
)
"""They turn a word around; alone they are a no."""
_OFF = _listed("low lower little zero 0")
"""They turn a word around: low risk, approved: 0; alone they say nothing."""
_BAD = _listed(
    "n deny denies bad worse worst poor default defaults defaulted defaulter defaulting fail fails failed failing "
    "failure fraud frauds loss losses lost late overdue unpaid nonpayment arrears risk risks risky chargeoff off "
    "writeoff scam scams suspicious suspect unsolvent "
    "ban banned block blocked suspended fired layoff dropout quit leave leaves leaver exited guilty jail "
    "prison crime spam attack phishing sick ill disease cancer dead died dies death toxic unsafe withheld "
    "schlecht schlechte betrug ausfall kundigung mauvais mauvaise defaut impaye echec malo mala cattivo cattiva frode "
    "negato negata negado negada mau ruim slecht slechte zly zla dalig daligt avslag afslag afvist avvist hayir "
    "дефолт"
)
_BAD_STEMS = _listed(
    "denied denial reject refus declin disapprov unapprov dismiss disqualif unqualif ineligib unsuccess unfavo "
    "unaccept fraudul delinquen bankrupt insolv foreclos nonperform churn attrit cancel terminat withdraw repossess "
    "evict expel recid dlq reoffend rearrest arrest convict detain criminal violen malic malign malware anomal abus "
    "harm danger diabet deceas "
    "ablehn abgelehn zuruckgewies verweiger gekundig zahlungsausf rejet rechaz deneg deniega moros impag incumpl "
    "rifiut respint inadempi recus rejeit inadimpl afgewez geweiger wanbetal odrzuc odmow zamitn reddedil "
    "отказ отклон плох мошен 拒 违约 違約 逾期 否 不 未 欺诈 詐欺 流失 却下 거절 거부 부도 연체"
)
_GOOD = _listed(
    "yes y true good better best paid repaid repay repays repaying pay pays pass passed passes passing ok safe healthy "
    "alive ham benign stay stays stayed stayer keep keeps kept current win won innocent released "
    "ja oui si sim tak ano evet da gut gute bon bonne bueno buena buono buona bom boa goed goede dobry dobra bra "
    "да 是 예"
)
_GOOD_STEMS = _listed(
    "approv accept grant admit admis hire eligib qualif success favorab favourab perform retain reten renew offer "
    "angenomm bewillig genehmig zugesag akzept aprob aceit aprov concedid approuv accord accett "
    "goedgekeur toegekend zaakcept przyznan schval godkend godkan godkjen onayla одобр принят хорош "
    "批准 通过 通過 同意 承認 合格 正常 승인 정상"
)


@dataclass(frozen=True)
class Guess:
    """The class that was taken for a yes without being told, and the other one.

    A function has no classes: what it returns is taken for P(yes), and `other` is None.
    """

    taken: object
    other: object = None


def sense(name: object) -> Sense | None:
    """How the name of a class reads: as what people hope for, as the opposite, or None where it says neither.

    >>> [sense(name) for name in ("approve", "Loan_Denied", "no default", "not hired", "B", 1)]
    ['good', 'bad', 'good', 'bad', None, None]
    """
    if isinstance(name, (bool, np.bool_)):
        return "good" if name else "bad"
    if not isinstance(name, str):
        return None
    words = _words(name)
    is_bad = any(word in _BAD or word.startswith(_BAD_STEMS) for word in words)
    is_good = any(word in _GOOD or word.startswith(_GOOD_STEMS) for word in words)
    has_no = any(word in _NO for word in words)
    if has_no or ((is_bad or is_good) and any(word in _OFF for word in words)):
        return "good" if is_bad else "bad"
    return "bad" if is_bad else "good" if is_good else None


def check_names(guess: Guess, title: str) -> None:
    """Refuse to take a class for a yes whose name reads as a no, or whose neighbor's reads better."""
    taken, other = guess.taken, guess.other
    if sense(taken) == "bad" or _is_below_zero(taken, other):
        why = f"{taken!r} would be taken, the second, and reads as a no"
    elif sense(taken) is None and sense(other) == "good":
        why = f"{taken!r} would be taken, the second, but {other!r} reads as a yes"
    else:
        return
    raise ModelError(
        f"{title} has the classes {other!r} and {taken!r}, and which of them is a yes is not said: {why}.",
        hint=f"pass target={other!r} (--target {other}) if that is what people hope for, or else target={taken!r}.",
    )


@dataclass(frozen=True)
class LabelAgreement:
    """How the decisions of a model go with labels that say who was accepted.

    Attributes
    ----------
    good, bad : how many people have a label of either kind.
    good_yes, bad_yes : shares of these to whom the model says yes.
    auc : chance that of two people with different labels the accepted one has the higher margin; ties count half.
    z : by how many standard errors the AUC lies above one half, its value if labels and margins had no relation.
    """

    good: int
    bad: int
    good_yes: float
    bad_yes: float
    auc: float
    z: float

    @classmethod
    def of(cls, margin: np.ndarray, accepted: np.ndarray) -> LabelAgreement | None:
        """From (n,) margins, NaN where there is none, and labels; None unless there are people of both kinds."""
        known = ~np.isnan(margin)
        margin, accepted = margin[known], accepted[known].astype(bool)
        n, good = len(margin), int(accepted.sum())
        bad = n - good
        if not good or not bad:
            return None
        _, group, size = np.unique(margin, return_inverse=True, return_counts=True)
        rank = (np.cumsum(size) - (size - 1) / 2.0)[group]
        auc = float((rank[accepted].sum() - good * (good + 1) / 2) / (good * bad))
        ties = float((size.astype(np.float64) ** 3 - size).sum()) / (n * (n - 1))
        error = np.sqrt(max(n + 1 - ties, 0.0) / (12.0 * good * bad))
        z = (auc - 0.5) / error if error > 0 else 0.0
        yes = margin >= 0
        return cls(good, bad, float(yes[accepted].mean()), float(yes[~accepted].mean()), auc, float(z))

    @property
    def contradicts(self) -> bool:
        """Whether people who were accepted lie farther from a yes than the others, by more than chance."""
        return self.z < BEYOND_CHANCE


def some_of_each(accepted: np.ndarray) -> np.ndarray:
    """Places of at most FEW people of either label, evenly spread; none where all labels are alike."""
    kinds = [np.flatnonzero(accepted), np.flatnonzero(~accepted)]
    if not all(map(len, kinds)):
        return np.zeros(0, dtype=np.int64)
    spread = [places[np.linspace(0, len(places) - 1, min(len(places), FEW)).astype(int)] for places in kinds]
    return np.sort(np.concatenate(spread))


def check_labels(model: Model, margin: np.ndarray, accepted: np.ndarray) -> None:
    """Stop where labels contradict a class that was guessed; warn where they contradict one that was said.

    Parameters
    ----------
    margin, accepted : (n,) margins of people, and labels that say who was accepted.
    """
    found = LabelAgreement.of(margin, accepted)
    if found is None or not found.contradicts:
        return
    facts = (
        f"the model says yes ({model.rule}) to {found.good_yes:.0%} of {found.good} people whom labels= has as "
        f"accepted, and to {found.bad_yes:.0%} of {found.bad} others (AUC {found.auc:.2f})"
    )
    if model.guessed is None:
        warnings.warn(f"labels= contradict the yes that was asked for, which is obeyed: {facts}.", stacklevel=4)
        return
    raise ProblemError(f"labels= contradict the class that is taken for a yes: {facts}.", hint=_remedy(model.guessed))


def _remedy(guess: Guess) -> str:
    mend = "labels= are True where a person was accepted"
    if guess.other is None:
        return f"let the function return P(yes), not P(no); {mend}. If both are right, wrap it with target=1."
    return (
        f"pass target={guess.other!r} (--target {guess.other}) if that is what people hope for; {mend}. If both are "
        f"right, say target={guess.taken!r}."
    )


def _is_below_zero(taken: object, other: object) -> bool:
    """0 or -1 beside a positive class, in an order that is not the usual one."""
    numbers = (int, float, np.number)
    return isinstance(taken, numbers) and isinstance(other, numbers) and bool(taken <= 0 < other)


def _words(name: str) -> list[str]:
    """The words of a name in small letters without accents: "LoanDenied" and "refusé" -> loan, denied, refuse."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    plain = "".join(c for c in unicodedata.normalize("NFKD", apart) if not unicodedata.combining(c))
    plain = unicodedata.normalize("NFC", plain).casefold()  # puts Korean syllables together again
    return [word for word in re.split(r"[\W_]+", plain) if word]
