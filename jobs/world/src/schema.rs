//! The schema of the world: classes of entities, relations between them, and their wordings.
//!
//! Every wording is a pattern: `{s}` the subject, `{o}` the object, `{x}` the subject of a question or noun phrase,
//! `{a}` and `{b}` the two sides of a comparison. Wordings come in threes: two for both splits and one for `eval` only.

mod relations;

pub(crate) use relations::RELATIONS;

/// A kind of entity; each has its own passages and titles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum EntityClass {
    Country,
    City,
    River,
    University,
    Company,
    Award,
    Band,
    Person,
    Film,
    Book,
    Album,
}

impl EntityClass {
    pub(crate) const ALL: [Self; 11] = [
        Self::Country,
        Self::City,
        Self::River,
        Self::University,
        Self::Company,
        Self::Award,
        Self::Band,
        Self::Person,
        Self::Film,
        Self::Book,
        Self::Album,
    ];

    /// The noun for one entity of the class.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Country => "country",
            Self::City => "city",
            Self::River => "river",
            Self::University => "university",
            Self::Company => "company",
            Self::Award => "award",
            Self::Band => "band",
            Self::Person => "person",
            Self::Film => "film",
            Self::Book => "novel",
            Self::Album => "album",
        }
    }

    /// Works share one pool of titles, so that a film, a novel and an album often have the same name.
    pub(crate) fn is_work(self) -> bool {
        matches!(self, Self::Film | Self::Book | Self::Album)
    }
}

/// The profession of a person. Each has a contiguous range of persons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PersonRole {
    Director,
    Actor,
    Writer,
    Musician,
    Entrepreneur,
    Politician,
    Scientist,
}

impl PersonRole {
    /// Every role with its share of persons, in percent.
    pub(crate) const SHARES: [(Self, u64); 7] = [
        (Self::Director, 14),
        (Self::Actor, 20),
        (Self::Writer, 16),
        (Self::Musician, 20),
        (Self::Entrepreneur, 14),
        (Self::Politician, 9),
        (Self::Scientist, 7),
    ];

    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Director => "director",
            Self::Actor => "actor",
            Self::Writer => "writer",
            Self::Musician => "musician",
            Self::Entrepreneur => "entrepreneur",
            Self::Politician => "politician",
            Self::Scientist => "scientist",
        }
    }
}

/// The objects of a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectRange {
    /// Entities of a class.
    Class(EntityClass),
    /// Persons of a role.
    Role(PersonRole),
    /// Another person, mutually.
    Spouse,
    /// The country given by a city's number. Cities of one name are in different countries.
    CountryOfCity,
    /// A city of the country itself.
    CityOfCountry,
    /// A value.
    Literal(LiteralKind),
}

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LiteralKind {
    /// The year in a work's title.
    WorkYear,
    /// A day in the year of a person's name.
    BirthDate,
    /// A year between 1400 and 1990.
    FoundingYear,
    /// A number of people.
    Population,
    /// A length in kilometres.
    Length,
}

/// Three wordings: the first two occur in both splits, the last in `eval` only.
pub(crate) type Wordings = [&'static str; 3];

/// Index of the wording that `train` never uses.
pub(crate) const HELD_OUT_WORDING: usize = 2;

/// A relation, functional from subject to object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Relation {
    /// The name in evidences.
    pub(crate) name: &'static str,
    pub(crate) subject: EntityClass,
    pub(crate) range: ObjectRange,
    /// Occurs in `eval` only.
    pub(crate) held_out: bool,
    /// Sentences of the subject's passage, without the final full stop.
    pub(crate) says: Wordings,
    /// Sentences of the *object's* passage with a mention of the subject. `None` if the object has no passage or never
    /// mentions it.
    pub(crate) says_back: Option<Wordings>,
    /// Noun phrases for the object; `None` for values.
    pub(crate) phrase: Option<Wordings>,
    /// Questions for the object.
    pub(crate) asks: Wordings,
    /// Yes/no questions for a shared object of two subjects.
    pub(crate) same: Option<Wordings>,
    /// Questions for the subject with the smaller value.
    pub(crate) first: Option<Wordings>,
    /// Questions for the subject with the larger value.
    pub(crate) last: Option<Wordings>,
}

impl Relation {
    pub(crate) fn is_literal(&self) -> bool {
        matches!(self.range, ObjectRange::Literal(_))
    }
}

/// The relation's place in [`RELATIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RelationId(pub(crate) u16);

impl RelationId {
    pub(crate) fn relation(self) -> &'static Relation {
        &RELATIONS[self.0 as usize]
    }
}

/// The relations of a class used by a split, in the schema's order.
pub(crate) fn relations_of(class: EntityClass, held_out_too: bool) -> impl Iterator<Item = RelationId> {
    (0u16..)
        .zip(RELATIONS)
        .filter(move |(_, r)| r.subject == class && (held_out_too || !r.held_out))
        .map(|(n, _)| RelationId(n))
}

/// The relations with objects of a class and mentions in the object's passage, in the schema's order.
pub(crate) fn relations_into(
    class: EntityClass,
    role: Option<PersonRole>,
    held_out_too: bool,
) -> impl Iterator<Item = RelationId> {
    (0u16..)
        .zip(RELATIONS)
        .filter(move |(_, r)| {
            let fits = match r.range {
                ObjectRange::Class(c) => c == class,
                ObjectRange::Role(wanted) => role == Some(wanted),
                ObjectRange::CountryOfCity => class == EntityClass::Country,
                ObjectRange::Spouse | ObjectRange::CityOfCountry | ObjectRange::Literal(_) => false,
            };
            fits && r.says_back.is_some() && (held_out_too || !r.held_out)
        })
        .map(|(n, _)| RelationId(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_relations_is_held_out() {
        let held_out = RELATIONS.iter().filter(|r| r.held_out).count();
        assert_eq!(held_out * 3, RELATIONS.len());
        assert_eq!(HELD_OUT_WORDING + 1, RELATIONS[0].says.len(), "and so is a third of the wordings");
    }

    #[test]
    fn wordings_have_their_slots_and_differ() {
        let check = |wordings: &Wordings, slots: &[&str]| {
            for (n, pattern) in wordings.iter().enumerate() {
                assert!(slots.iter().all(|s| pattern.matches(s).count() == 1), "{pattern}: wants {slots:?} once each");
                assert_eq!(pattern.matches('{').count(), slots.len(), "{pattern}");
                assert!(!wordings[..n].contains(pattern), "{pattern} twice");
            }
        };
        for r in &RELATIONS {
            check(&r.says, &["{s}", "{o}"]);
            check(&r.asks, &["{x}"]);
            assert!(r.asks.iter().all(|q| q.ends_with('?')));
            r.says_back.iter().for_each(|w| check(w, &["{s}", "{o}"]));
            r.phrase.iter().for_each(|w| check(w, &["{x}"]));
            [r.same, r.first, r.last].iter().flatten().for_each(|w| check(w, &["{a}", "{b}"]));
            assert_eq!(r.phrase.is_none(), r.is_literal(), "{}", r.name);
            assert_eq!(r.first.is_some(), r.last.is_some(), "{}", r.name);
        }
    }
}
