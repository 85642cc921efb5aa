//! The wordings of the world, for readers: the patterns by which its passages state facts and its questions ask for
//! them.
//!
//! Nothing of a world's content is here. A reader matches these patterns against a text and learns what the text says.
//! Slots: `{s}` the subject, `{o}` the object, `{x}` the subject of a question or noun phrase, `{a}` and `{b}` the two
//! sides of a comparison.

use crate::kinds::{BY_AGE_FIRST, BY_AGE_LAST, part_of};
use crate::schema::{EntityClass, ObjectRange, PersonRole, RELATIONS, Relation};
use crate::wordlists::QUALITIES;

/// A relation with all its wordings.
#[derive(Debug, Clone)]
pub struct RelationWordings {
    /// The name in evidences, as in `place of birth`.
    pub name: &'static str,
    /// The nouns by which leads introduce its subjects; a person is introduced by the role.
    pub subject_nouns: Vec<&'static str>,
    /// The nouns of its objects; empty for values.
    pub object_nouns: Vec<&'static str>,
    /// The part that its object plays in questions about age, as in `founder`; `None` if no such question uses it.
    pub person_part: Option<&'static str>,
    /// Sentences of the subject's passage, without the final full stop.
    pub says: [&'static str; 3],
    /// Sentences of the object's passage: there `{s}` is the *object* of the fact and `{o}` its subject.
    pub says_back: Option<[&'static str; 3]>,
    /// Noun phrases for the object; `None` for values.
    pub phrase: Option<[&'static str; 3]>,
    /// Questions for the object.
    pub asks: [&'static str; 3],
    /// Yes/no questions for a shared object.
    pub same: Option<[&'static str; 3]>,
    /// Questions for the subject with the smaller value.
    pub first: Option<[&'static str; 3]>,
    /// Questions for the subject with the larger value.
    pub last: Option<[&'static str; 3]>,
}

/// Every relation, in the schema's order.
pub fn relation_wordings() -> Vec<RelationWordings> {
    RELATIONS.iter().map(wordings_of).collect()
}

fn wordings_of(relation: &Relation) -> RelationWordings {
    let persons = || PersonRole::SHARES.map(|(role, _)| role.noun()).to_vec();
    let class_nouns = |class: EntityClass| match class {
        EntityClass::Person => persons(),
        class => vec![class.noun()],
    };
    let object_nouns = match relation.range {
        ObjectRange::Class(class) => class_nouns(class),
        ObjectRange::Role(role) => vec![role.noun()],
        ObjectRange::Spouse => persons(),
        ObjectRange::CountryOfCity => class_nouns(EntityClass::Country),
        ObjectRange::CityOfCountry => class_nouns(EntityClass::City),
        ObjectRange::Literal(_) => vec![],
    };
    RelationWordings {
        name: relation.name,
        subject_nouns: class_nouns(relation.subject),
        object_nouns,
        person_part: part_of(relation),
        says: relation.says,
        says_back: relation.says_back,
        phrase: relation.phrase,
        asks: relation.asks,
        same: relation.same,
        first: relation.first,
        last: relation.last,
    }
}

/// Questions that pick a work or body by the age of its person: those for the elder, then those for the younger. `{n}`
/// is the noun of the compared things, `{r}` the person's part.
pub fn age_wordings() -> [[&'static str; 3]; 2] {
    [BY_AGE_FIRST, BY_AGE_LAST]
}

/// The nouns by which leads introduce entities.
pub fn lead_nouns() -> Vec<&'static str> {
    let classes = EntityClass::ALL.into_iter().filter(|&class| class != EntityClass::Person).map(EntityClass::noun);
    PersonRole::SHARES.iter().map(|(role, _)| role.noun()).chain(classes).collect()
}

/// The roles of persons among the [`lead_nouns`].
pub fn person_nouns() -> Vec<&'static str> {
    PersonRole::SHARES.iter().map(|(role, _)| role.noun()).collect()
}

/// The adjectives that a question may put before a noun phrase (`the stark and rustic director of ..`).
pub fn quality_words() -> &'static [&'static str] {
    &QUALITIES
}
