//! Gives every entity its name and its unique title, as a function of its number, and back.
//!
//! A pool of `n` entities has `bases < n` distinct names. A permutation maps entity `e` to `p`. Its name is number `p
//! mod bases`, and it is holder `p div bases` of that name. The first holder has the bare name as its title. Later ones
//! have a disambiguator that differs between holders of one name: a country for cities, a year for works and persons, a
//! trade's place for the rest. Nothing is stored, so a pool of millions needs no memory.

mod parts;

use crate::random_stream::{Permutation, StreamPurpose};
use crate::settings::WorldSplit;

use parts::{
    ADJECTIVES, AWARD_KINDS, COUNTRY_ENDINGS, FIELDS, NOUNS, PLACE_ENDINGS, PLACE_MIDDLES, PLACE_PREFIXES,
    SURNAME_ENDINGS, TRADES,
};
pub(crate) use parts::{EVAL, NameParts, TRAIN};

/// The parts of a split's names.
pub(crate) fn name_parts(split: WorldSplit) -> &'static NameParts {
    match split {
        WorldSplit::Train => &TRAIN,
        WorldSplit::Eval => &EVAL,
    }
}

/// An entity's name and its place among the holders of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameHolder {
    pub(crate) base: u64,
    pub(crate) rank: u64,
}

/// A pool of entities that share names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamePool {
    size: u64,
    bases: u64,
    order: Permutation,
    /// Spreads the used names over all available names.
    spread: Permutation,
}

impl NamePool {
    /// A pool of `size` entities. About `collisions` in a thousand share a name with an earlier one. `capacity` is the
    /// number of available distinct names.
    pub(crate) fn new(world: u64, number: u8, size: u64, collisions: u32, capacity: u64) -> Self {
        let bases = (size * 1000).div_ceil(1000 + u64::from(collisions)).clamp(1, capacity);
        Self {
            size,
            bases,
            order: Permutation::new(world, StreamPurpose::Names(number), size),
            spread: Permutation::new(world, StreamPurpose::Names(number + 64), bases),
        }
    }

    pub(crate) fn name_count(&self) -> u64 {
        self.bases
    }

    pub(crate) fn holder(&self, entity: u64) -> NameHolder {
        let p = self.order.apply(entity);
        NameHolder { base: p % self.bases, rank: p / self.bases }
    }

    /// The entity of a holder, if it exists.
    pub(crate) fn entity(&self, holder: NameHolder) -> Option<u64> {
        let p = holder.base + holder.rank * self.bases;
        (p < self.size).then(|| self.order.invert(p))
    }

    /// The number of entities with this name.
    pub(crate) fn holder_count(&self, base: u64) -> u64 {
        (self.size - base).div_ceil(self.bases)
    }

    /// A number below [`NamePool::name_count`] for a name. Neighbours in number get distant spellings.
    pub(crate) fn spelling_number(&self, base: u64) -> u64 {
        self.spread.apply(base)
    }
}

/// The number of available names of each sort.
pub(crate) mod capacity {
    use super::parts::{ADJECTIVES, AWARD_KINDS, FIELDS, NOUNS, TRADES};

    const SIMPLE_PLACES: u64 = 48 * 16;
    const LONG_PLACES: u64 = 48 * 20 * 20 * 16;
    pub(crate) const PLACES: u64 = SIMPLE_PLACES + LONG_PLACES * 11;
    pub(crate) const RIVERS: u64 = LONG_PLACES * 11;
    pub(crate) const SURNAMES: u64 = 48 * 24;
    pub(crate) const COUNTRIES: u64 = 40 * 6;
    pub(crate) const PERSONS: u64 = 64 * 27 * 27 * SURNAMES;
    pub(crate) const COMPANIES: u64 = SURNAMES * SURNAMES * TRADES.len() as u64;
    pub(crate) const AWARDS: u64 = SURNAMES * FIELDS.len() as u64 * AWARD_KINDS.len() as u64;
    pub(crate) const BANDS: u64 = ADJECTIVES * NOUNS * (NOUNS - 1);
    pub(crate) const WORKS: u64 = 4 * ADJECTIVES * NOUNS * NOUNS;
    pub(super) const SIMPLE: u64 = SIMPLE_PLACES;
    pub(super) const LONG: u64 = LONG_PLACES;
}

// Numbers are used from 0 on, and the names of a small world must not all have the same ending. A stride coprime to the
// number of names spreads them. In a name of two parts, the second part turns with the first.

/// A surname. Numbers beyond the last surname start again.
pub(crate) fn surname(parts: &NameParts, n: u64) -> String {
    let n = n * 535 % capacity::SURNAMES;
    format!("{}{}", parts.surname_stems[(n % 48) as usize], SURNAME_ENDINGS[(n / 48) as usize])
}

/// A town's name; the first 768 are short.
pub(crate) fn place(parts: &NameParts, n: u64) -> String {
    if n < capacity::SIMPLE {
        let n = n * 331 % capacity::SIMPLE;
        return format!("{}{}", parts.place_stems[(n % 48) as usize], PLACE_ENDINGS[(n / 48) as usize]);
    }
    let n = n - capacity::SIMPLE;
    let (prefix, n) = (n / capacity::LONG, n % capacity::LONG * 7919 % capacity::LONG);
    let prefix = if prefix == 0 { "" } else { PLACE_PREFIXES[(prefix - 1) as usize] };
    let stem = parts.place_stems[(n % 48) as usize];
    let first = PLACE_MIDDLES[(n / 48 % 20) as usize];
    let second = PLACE_MIDDLES[(n / 960 % 20) as usize];
    format!("{prefix}{stem}{first}{second}{}", PLACE_ENDINGS[(n / 19_200) as usize])
}

pub(crate) fn country(parts: &NameParts, n: u64) -> String {
    format!("{}{}", parts.country_stems[(n % 40) as usize], COUNTRY_ENDINGS[(n / 40) as usize])
}

/// A river's name, built on a long place name.
pub(crate) fn river(parts: &NameParts, n: u64) -> String {
    format!("{} River", place(parts, capacity::SIMPLE + n))
}

/// A person's name in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PersonName {
    pub(crate) full: String,
    pub(crate) surname: String,
    pub(crate) is_woman: bool,
}

impl PersonName {
    /// `M. Zimova` for `Margot Zimova`.
    pub(crate) fn in_short(&self) -> String {
        let initial = self.full.chars().next().map_or_else(String::new, |letter| format!("{letter}. "));
        initial + &self.surname
    }
}

/// A person's name. Given names are combined with `surnames` surnames. Initials are used only after those run out.
pub(crate) fn person(parts: &NameParts, n: u64, surnames: u64) -> PersonName {
    let (family, n) = (n % surnames, n / surnames);
    let (given, initials) = ((n + 37 * family) % 64, n / 64);
    let surname = surname(parts, family);
    let given_name = parts.given[given as usize];
    let letter = |i: u64| char::from(b'A' + (i % 26) as u8);
    let full = match initials {
        0 => format!("{given_name} {surname}"),
        1..27 => format!("{given_name} {}. {surname}", letter(initials - 1)),
        _ => format!("{given_name} {}. {}. {surname}", letter(initials - 27), letter((initials - 27) / 26)),
    };
    PersonName { full, surname, is_woman: given % 2 == 1 }
}

/// A university's name; four for each place.
pub(crate) fn university(parts: &NameParts, n: u64) -> String {
    let short = capacity::SIMPLE;
    let (town, kind) = match n {
        n if n < 4 * short => (n % short, n / short + n % short),
        n => (n / 4, n),
    };
    let town = place(parts, town);
    match kind % 4 {
        0 => format!("University of {town}"),
        1 => format!("{town} State University"),
        2 => format!("{town} College"),
        _ => format!("{town} Institute of Technology"),
    }
}

/// A company's name: a surname and a trade, or two surnames after those run out.
pub(crate) fn company(parts: &NameParts, n: u64) -> String {
    let (first, n) = (n % capacity::SURNAMES, n / capacity::SURNAMES);
    let trade = TRADES[((n + 7 * first) % 24) as usize];
    match n / 24 {
        0 => format!("{} {trade}", surname(parts, first)),
        second => format!("{} & {} {trade}", surname(parts, first), surname(parts, second)),
    }
}

pub(crate) fn award(parts: &NameParts, n: u64) -> String {
    let (donor, n) = (n % capacity::SURNAMES, n / capacity::SURNAMES + 5 * (n % capacity::SURNAMES));
    let kind = AWARD_KINDS[(n % 3) as usize];
    let field = FIELDS[(n / 3 % 24) as usize];
    format!("{} {kind} for {field}", surname(parts, donor))
}

/// A band's name: two words, or three after those run out.
pub(crate) fn band(parts: &NameParts, n: u64) -> String {
    let adjective = parts.adjectives[(n % ADJECTIVES) as usize];
    let noun = parts.nouns[((n / ADJECTIVES + 5 * (n % ADJECTIVES)) % NOUNS) as usize];
    match n / (ADJECTIVES * NOUNS) {
        0 => format!("The {adjective} {}", plural_noun(noun)),
        second => format!("The {adjective} {noun} {}", plural_noun(parts.nouns[second as usize])),
    }
}

fn plural_noun(noun: &str) -> String {
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if noun.ends_with(['s', 'x']) || noun.ends_with("ch") || noun.ends_with("sh") => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// A work's title, in one of four forms, each with a short variant for its first few thousand.
pub(crate) fn work(parts: &NameParts, n: u64) -> String {
    use capacity::{SIMPLE, SURNAMES};
    let (form, rest) = (n % 4, n / 4);
    const PAIRS: u64 = ADJECTIVES * NOUNS;
    let adjective = |i: u64| parts.adjectives[(i % ADJECTIVES) as usize];
    let noun = |i: u64| parts.nouns[(i % NOUNS) as usize];
    match form {
        0 if rest < PAIRS => format!("{} {}", adjective(rest), noun(rest / ADJECTIVES + 5 * (rest % ADJECTIVES))),
        0 => format!("{} {} and {}", adjective(rest), noun(rest / ADJECTIVES), noun(rest / PAIRS)),
        1 if rest < NOUNS * NOUNS => {
            format!("The {} and the {}", noun(rest), noun(rest / NOUNS + 5 * (rest % NOUNS)))
        }
        1 => format!("The {} of the {} {}", noun(rest), adjective(rest / NOUNS), noun(rest / PAIRS)),
        2 if rest < NOUNS * SIMPLE => {
            format!("The {} of {}", noun(rest / SIMPLE + 11 * (rest % SIMPLE)), place(parts, rest % SIMPLE))
        }
        2 => format!("The {} {} of the Road", noun(rest), place(parts, rest / NOUNS)),
        _ if rest < NOUNS * SURNAMES => {
            format!("The {} {}", surname(parts, rest), noun(rest / SURNAMES + 11 * (rest % SURNAMES)))
        }
        _ => format!("A {} {} for the {}", adjective(rest), noun(rest / ADJECTIVES), noun(rest / PAIRS)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn distinct(n: u64, name: impl Fn(&NameParts, u64) -> String) {
        let [train, eval] = [&TRAIN, &EVAL].map(|p| (0..n).map(|i| name(p, i)).collect::<BTreeSet<_>>());
        assert_eq!((train.len() as u64, eval.len() as u64), (n, n), "names repeat");
        assert!(train.is_disjoint(&eval), "shared: {:?}", train.intersection(&eval).next());
    }

    #[test]
    fn names_are_distinct_and_differ_between_splits() {
        distinct(capacity::SURNAMES, surname);
        distinct(40_000, place);
        distinct(40_000, river);
        distinct(capacity::COUNTRIES, country);
        distinct(150_000, |p, n| person(p, n, 300).full);
        distinct(60_000, university);
        distinct(60_000, company);
        distinct(capacity::AWARDS, award);
        distinct(60_000, band);
        distinct(80_000, work);
    }

    #[test]
    fn holders_invert() {
        let pool = NamePool::new(3, 0, 1000, 300, 10_000);
        let mut shared = 0;
        for e in 0..1000 {
            let holder = pool.holder(e);
            assert_eq!(pool.entity(holder), Some(e));
            assert!(holder.rank < pool.holder_count(holder.base));
            shared += u64::from(holder.rank > 0);
        }
        assert_eq!(shared, 1000 - pool.name_count());
    }
}
