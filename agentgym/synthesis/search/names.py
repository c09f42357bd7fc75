"""Invented names: unique within a world, owned by one split, and never a word that pages or clues use.

Each name holds a *core*, the part that no other entity shares: an invented word, or for some titles the whole phrase.
"""

from __future__ import annotations

from agentgym.synthesis.dice import Dice, capital
from agentgym.synthesis.splits import owner

_STYLES: tuple[tuple[str, str, str], ...] = (
    ("b br d f g h k l m n r s st t th v w", "a e i o ou ai", "ck ld mb nd rn sk th lm st ff"),
    ("b d f g l m n p r s t v z c", "a e i o u ia io", "n r l s ne ra lo ta no"),
    ("d f g h j k l m n r s t v sj kv", "a e i o u ø å y", "lk nd rd st gg ln rm ss"),
    ("b ch d g k l m n p r s sh t y z", "a e i o u ee", "k m n r sh t l d"),
    ("c d dr g gl ll m n p pr rh t tr w", "a e i o y au", "dd n nt r rth ll s th"),
    ("p t k s z h v l m r pr kr tr", "a e i o u ě y", "k n ř v sk tz nka l"),
)
_GIVEN = ["Ada", "Alma", "Anselm", "Arne", "Astrid", "Auguste", "Bertil", "Bram", "Brita", "Casimir", "Cecily", "Clement", "Cora", "Dagmar", "Darius", "Edda", "Elias", "Elin", "Emeric", "Esther", "Fabian", "Felicity", "Florian", "Frida", "Gideon", "Greta", "Gustav", "Hanna", "Hedwig", "Henrik", "Hester", "Hugo", "Ida", "Ignace", "Ilse", "Ines", "Ivo", "Jadwiga", "Jasper", "Johanna", "Jonas", "Judith", "Kamil", "Klara", "Konrad", "Lars", "Leonie", "Linus", "Lotte", "Ludmila", "Magda", "Malin", "Marius", "Matilda", "Mirko", "Nadia", "Nils", "Odile", "Olga", "Oskar", "Ottilie", "Paula", "Petra", "Philippa", "Quentin", "Ragna", "Rasmus", "Renata", "Roland", "Rosalind", "Rufus", "Sabine", "Selma", "Sigrid", "Silas", "Stefan", "Tabitha", "Tadeusz", "Thea", "Tilda", "Tobias", "Ulrika", "Ursula", "Valentin", "Vera", "Viktor", "Vilma", "Walter", "Wanda", "Wenzel", "Wilma", "Xenia", "Yngve", "Yvette", "Zdenka", "Zelda"]
_ADJECTIVES = ["Amber", "Ashen", "Bitter", "Borrowed", "Broken", "Copper", "Crooked", "Distant", "Drowned", "Early", "Empty", "Endless", "Faithful", "Fallen", "Forgotten", "Frozen", "Gilded", "Hidden", "Hollow", "Idle", "Ivory", "Later", "Lonely", "Lost", "Mended", "Northern", "Orphaned", "Painted", "Patient", "Quiet", "Restless", "Rusted", "Salted", "Scarlet", "Second", "Seventh", "Silent", "Sleeping", "Slender", "Southern", "Stolen", "Tangled", "Tender", "Thirsty", "Twisted", "Unpaid", "Velvet", "Wandering", "Wooden", "Yellow"]
_NOUNS = ["Acre", "Alibi", "Almanac", "Anthem", "Apron", "Barometer", "Basin", "Bellows", "Bonfire", "Bramble", "Candle", "Cartographer", "Cellar", "Chorus", "Cinder", "Clover", "Compass", "Corridor", "Cradle", "Daybreak", "Dialect", "Ember", "Envelope", "Errand", "Estuary", "Fable", "Farewell", "Ferryman", "Furrow", "Garland", "Gravel", "Harvest", "Hinge", "Horizon", "Hourglass", "Interval", "Inventory", "Jetty", "Ladder", "Lantern", "Ledger", "Lullaby", "Magpie", "Meridian", "Mirror", "Mosaic", "Needle", "Nocturne", "Orchard", "Overture", "Parcel", "Pendulum", "Pilgrim", "Quarry", "Quilt", "Reckoning", "Refrain", "Rehearsal", "Ripple", "Rooftop", "Saddle", "Sapling", "Sentinel", "Shepherd", "Shoreline", "Signal", "Sparrow", "Staircase", "Summit", "Thimble", "Thistle", "Threshold", "Tide", "Treaty", "Undertow", "Verdict", "Vigil", "Voyage", "Waltz", "Weathervane", "Whistle", "Windfall", "Winter", "Witness", "Yarn"]
_PATTERNS: dict[str, tuple[str, ...]] = {
    "region": ("the {} Marches", "the {} Valley", "the {} Coast", "the {} Uplands", "the {} Plain"),
    "town": ("{}", "{}", "{}", "Port {}", "{} Cross", "Upper {}"),
    "river": ("the {}",),
    "company": ("{} & Sons", "{} Works", "{} Brothers", "{} Trading Company", "{} Foundry", "{} & Co."),
    "bridge": ("the {} Bridge", "the {} Viaduct", "the {} Footbridge", "the {} Span"),
    "festival": ("the {} Days", "the {} Fair", "the {} Week", "the {} Gathering"),
    "museum": ("the {} Museum", "the {} Collection", "the {} House"),
    "ensemble": ("the {} Quintet", "the {} Players", "the {} Consort", "the {} Band"),
    "team": ("{} Rovers", "{} Athletic", "{} United", "{} Wanderers"),
    "school": ("{} Academy", "{} College", "{} School"),
    "species": ("the {} shrew", "the {} warbler", "the {} newt", "the {} moth", "the {} bat", "the {} limpet"),
    "product": ("the {} engine", "the {} press", "the {} lamp", "the {} hoist", "the {} cutter", "the {} register"),
    "ship": ("the {} Venture", "the Lady {}", "the {} Star", "the {}"),
    "award": ("the {} Prize", "the {} Medal", "the {} Ribbon", "the {} Cup"),
}
_TITLED = {"book", "album", "film"}


class Namer:
    """Gives out names of one split."""

    def __init__(self, split: str, dice: Dice, reserved: frozenset[str]) -> None:
        """`reserved` are lower-case words that no invented word may equal."""
        self._split = split
        self._dice = dice
        self._taken: set[str] = set(reserved) | {name.lower() for name in _GIVEN}

    def name(self, type_name: str) -> tuple[str, str]:
        """A new name and its core."""
        if type_name == "person":
            core = self._word()
            return f"{self._dice.pick(_GIVEN)} {core}", core
        if type_name in _TITLED:
            return self._title()
        core = self._word()
        return self._dice.pick(_PATTERNS[type_name]).format(core), core

    def _word(self) -> str:
        while True:
            onsets, vowels, codas = (part.split() for part in self._dice.pick(_STYLES))
            syllables = [self._dice.pick(onsets) + self._dice.pick(vowels) for _ in range(self._dice.between(1, 2))]
            word = "".join(syllables) + self._dice.pick(onsets) + self._dice.pick(vowels) + self._dice.pick(codas)
            if 6 <= len(word) <= 11 and self._claim(word):
                return capital(word)

    def _title(self) -> tuple[str, str]:
        while True:
            noun = self._dice.pick(_NOUNS)
            if self._dice.chance(0.5):
                core = self._word()
                pattern = self._dice.pick(("The {} of {}", "One {} for {}", "{} and {}"))
                return pattern.format(noun, core), core
            title = f"{self._dice.pick(('The', 'One', 'No', 'Another'))} {self._dice.pick(_ADJECTIVES)} {noun}"
            core = title.split(" ", 1)[1]  # articles do not keep two titles apart
            if self._claim(core):
                return title, core

    def _claim(self, core: str) -> bool:
        if core.lower() in self._taken or owner(core) != self._split:
            return False
        self._taken.add(core.lower())
        return True
