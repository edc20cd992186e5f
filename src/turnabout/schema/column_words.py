"""What the name of a column says of it: a small table of words in several languages, open to extension.

A name is cut into words at capitals, digits, signs and spaces; accents do not count. An entry is one word, several
in a row, or one end of a word (with a `*`); `#` is any number, and after `=` the entry must be the whole name. `WORDS`
may be extended before a schema is drafted:

    from turnabout.schema.column_words import WORDS
    WORDS["protected"]["sex"].append("kyn")
"""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

Kind = Literal["protected", "identity", "time", "past", "others", "asked", "worse", "amounts", "better"]


WITHIN = "what happened within a time"


def _listed(text: str) -> list[str]:
    return text.split(", ")


WORDS: dict[Kind, dict[str, list[str]]] = {
    # what law or nature fixes, and what no lender may ask people to change
    "protected": {
        "sex": _listed("sex, gender, male, female, geschlecht, sexe, genre, sexo, genero, sesso, geslacht"),
        "race": _listed("race, racial, ethnic*, skin color, skin colour, hautfarbe, raza, raca, etnia, razza"),
        "origin": _listed(
            "nationality, citizen*, foreign*, immigra*, native country, country of birth, birth country, native, "
            "staatsangehorigkeit, nationalitat, nationalite, nacionalidad, nazionalita, herkunft"
        ),
        "religion": _listed("religio*, konfession, faith, church"),
        "family": _listed(
            "marital, married, marriage, civil status, relationship, spouse, widow*, divorced, single, "
            "familienstand, verheiratet, etat civil, situation familiale, estado civil, stato civile, dependents, "
            "dependants, children, kinder, enfants, hijos, figli, pregnan*, liable"
        ),
        "health": _listed("disab*, handicap*, health, illness, behinder*, discapacidad"),
        "age": _listed(
            "age, birth, birthday, birthdate, dob, born, geburt*, alter, naissance, edad, nacimiento, eta, "
            "nascita, leeftijd, idade"
        ),
    },
    # who somebody is, and where: not a thing to advise
    "identity": {
        "an identifier": _listed(
            "id, ids, uuid, guid, identifier, ssn, passport, iban, key, customer number, row number, account "
            "number, loan number, case number, kundennummer, numero, index, rowid, unnamed"
        ),
        "names": _listed("firstname, lastname, first name, last name, surname, full name, vorname, nachname"),
        "contacts": _listed("email, mail, phone number, address, adresse, street, strasse, calle"),
        "places": _listed(
            "zip, zipcode, postcode, postal, plz, cap, codigo postal, latitude, longitude, county, state, region, "
            "country, city, town, province, bundesland, msa"
        ),
        "how somebody lives": _listed(
            "=home, =house, =housing, home owner*, homeowner*, house owner*, housing type, housing status, housing "
            "situation, type of housing, residence type, residential status, accommodation, dwelling, wohnung, "
            "wohnsituation, wohnart, =vivienda, tipo vivienda, =logement, type logement, abitazione, =casa"
        ),
    },
    # what only time brings
    "time": {
        "dates": _listed("date, datum, fecha, data di, timestamp, datetime, year, month of, quarter, vintage"),
        "how long something lasts": _listed(
            "tenure, seniority, since, oldest, earliest, in file, length of employment, emp length, employment length, "
            "employment duration, job tenure, years employed, years at, months at, years with, yrs at, present "
            "residence, residence since, days employed, time at, customer since, account age, "
            "betriebszugehorigkeit, anciennete, antiguedad"
        ),
    },
    # counts and marks of what has happened
    "past": {
        "past events": _listed(
            "accounts opened, days late, times late, months late, late payments, missed payments, payments "
            "missed, *hist, prior, priors, previous, ever, past, history, record, records, inq, inquir*, bankrupt*, "
            "convict*, arrest*, felon*, misdem*, recid*, foreclos*, chargeoff*, charge off, public record, pub rec, "
            "derog*, vorstrafen, antecedents, antecedentes"
        ),
        # but for income and other amounts
        WITHIN: _listed(
            "last #, past #, # m, # mo, # mth, # mths, # month, # months, # y, # yr, # yrs, # year, # years, # d, "
            "# day, # days, # w, # weeks, # monat*, # jahr*, # mois, # an, # ans, # mes, # meses, # anos, # mesi, "
            "# anni"
        ),
    },
    # what the question itself is about: another answer would be another question
    "asked": {
        "the terms of the loan, which follow from others": _listed(
            "installment, instalment, monthly payment, annuity, emi, monatsrate, mensualite, cuota, insurance, "
            "versicherung, assurance, seguro, assicurazione"
        ),
        "the purpose of the request, or what is bought": _listed(
            "purpose, loan reason, reason, product, channel, condo*, property type, verwendungszweck, motif, "
            "proposito, scopo, loan type, price, purchase price"
        ),
    },
    # what others set
    "others": {
        "rates or the economy": _listed(
            "unemployment, unemp, unem, inflation, gdp, cpi, euribor, libor, sofr, prime rate, base rate, index, "
            "arbeitslos*, desempleo, chomage, market, industry rate, emp var rate, cons price, cons conf, nr "
            "employed, interest rate, int rate, *zinssatz, *zins, taux d interet, tasa de interes, apr, hpi, "
            "house price"
        ),
        "what another applicant has": _listed(
            "joint, coapplicant*, co applicant*, coborrower*, co borrower*, cosigner*, mitantragsteller*, "
            "coemprunteur*, cotitular*, cointestatario"
        ),
        "scores or limits": _listed(
            "limit, credit limit, limit bal, credit line amount, verified, verification*, score, fico, rating, "
            "risk estimate, grade, sub grade, subgrade, scorex, schufa"
        ),
    },
    # advice does not raise these
    "worse": {
        "debts or arrears": _listed(
            "debt, debts, liabilit*, owed, outstanding, overdue, arrears, late, delay, delq, delinq*, past due, "
            "pastdue, default*, behind, utilization, utilisation, burden, dti, ltv, *schulden, "
            "uberfallig*, ruckstand*, kreditbetrag, kredithohe, darlehensbetrag, impaye*, atraso*, dette, dettes, "
            "deuda, debito, loan amount, loan amnt, loanamt, loan amt, credit amount, amount requested, dpd, "
            "debtratio, unpaid, rule violation*, violation*, utilized, utilised, util, utils, loan balance, card "
            "balance, revolving balance, outstanding balance, revol bal, tot bal, total bal, il bal, saldo deudor, to "
            "income, to value"
        ),
        "credit that is held": _listed(
            "lines, lines of credit, cc accounts, card accounts, open credit, open accounts, open acc, open loans, "
            "other loans, existing loans, existing credits, num loans, num* credits, number of loans, number of "
            "credits, real estate loans, mortgages, mort acc*, trade lines, tradelines, tl, anzahl kredite, bestehende "
            "kredite, credits en cours, creditos vigentes"
        ),
        "spending": _listed(
            "expense*, expenditure*, spending, living costs, cost of living, housing costs, rent, ausgaben, "
            "lebenshaltungskosten, miete, depenses, loyer, gastos, alquiler, spese, affitto, despesas"
        ),
    },
    # amounts of which a person can move a part: how far they get depends on where they stand
    "amounts": {
        "amounts": _listed(
            "*inc, income, salary, salaries, wage, wages, earning*, revenue, *einkommen, *gehalt, *lohn, "
            "*guthaben, kreditbetrag, kredithohe, darlehensbetrag, revenu, "
            "revenus, salaire, ingreso, ingresos, salario, reddito, stipendio, savings, net worth, netw, "
            "networth, liq, assets, loan amount, loan amnt, loanamt, loan amt, credit amount, amount requested, "
            "utilized, utilised, balance, amount, amounts, amnt, amt, betrag, montant, importe, importo, "
            "monto, to income, dti"
        ),
    },
    # advice does not lower these
    "better": {
        "income, savings or education": _listed(
            "income, salary, salaries, wage, wages, earning*, revenue, savings, saving, *guthaben, wealth, assets, "
            "equity, deposit, down payment, downpayment, net worth, netw, networth, liq, liquid assets, *inc, "
            "*einkommen, *gehalt, *lohn, ersparnis*, revenu, revenus, salaire, epargne, ingreso, ingresos, salario, "
            "ahorro*, reddito, stipendio, education, degree, schooling, *school, diploma, graduate*, college, "
            "university, qualification, bildung, abschluss, educacion, istruzione"
        ),
        "accounts in good order": _listed(
            "satisfactory, good standing, never delinq*, never delq, never late, paid on time, paid off"
        ),
    },
}
REVERSED = ("never", "no", "not", "without", "non", "kein", "keine", "sans", "sin", "senza", "satisfactory")
SHARE_OF = ("to", "per")
SPLIT = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_a-zA-Z]+")


def without_accents(text: str) -> str:
    """Letters as they are written without accents."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return plain.replace("ß", "ss")


def words_of(name: str) -> list[str]:
    """The words of a column's name: "NumInqLast6M" -> num, inq, last, 6, m."""
    return [word.lower() for word in SPLIT.findall(without_accents(name))]


def says(name: str, kind: Kind) -> str | None:
    """What the name says of one kind: the group of words that it holds, or None.

    Of what is better or worse, a word such as "never" or "no" before it says the opposite. After "to" or "per",
    where a share is taken of it ("debt to income"), no amount is meant, nor what is better. Amounts such as the income
    of 12 months go on, what else happened within a time is past.
    """
    words = words_of(name)
    for group, entries in WORDS[kind].items():
        if group == WITHIN and (says(name, "better") or says(name, "amounts")):
            continue
        for entry in entries:
            at = _find(words, entry)
            if at is None or (kind in ("worse", "better") and any(word in REVERSED for word in words[:at])):
                continue
            if kind not in ("better", "amounts") or at == 0 or words[at - 1] not in SHARE_OF:
                return group
    return None


def _find(words: list[str], entry: str) -> int | None:
    """Where the words of an entry begin, or None."""
    if entry.startswith("="):
        return 0 if _find(words, entry[1:]) == 0 and len(words) == len(entry.split()) else None
    parts = entry.split()
    for start in range(len(words) - len(parts) + 1):
        if all(_same(word, part) for word, part in zip(words[start:], parts)):
            return start
    return None


def _same(word: str, part: str) -> bool:
    if part == "#":
        return word.isdigit()
    if part.startswith("*"):
        return word.endswith(part[1:])
    return word.startswith(part[:-1]) if part.endswith("*") else word == part
