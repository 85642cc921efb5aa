//! The kinds of questions: chains of two to four passages, comparisons, and comparisons of two chains.
//!
//! Each function makes one attempt and returns `None` if the draw leads nowhere: an unmarried person, a passage too
//! short to state the fact, a name that would give the answer away.

use crate::draft::{DraftAnswer, DraftContext, PhrasePosition, QuestionDraft, StatedFact, tidy_punctuation};
use crate::entities::{Entities, Entity, FactObject};
use crate::schema::{EntityClass, ObjectRange, Relation, RelationId, Wordings};

/// The first classes of chains, with weights.
const STARTS: [(EntityClass, u64); 9] = [
    (EntityClass::Film, 32),
    (EntityClass::Book, 15),
    (EntityClass::Album, 13),
    (EntityClass::Company, 12),
    (EntityClass::Person, 10),
    (EntityClass::Band, 8),
    (EntityClass::University, 5),
    (EntityClass::River, 3),
    (EntityClass::Award, 2),
];

/// The compared classes, with weights.
const COMPARED: [(EntityClass, u64); 9] = [
    (EntityClass::Film, 25),
    (EntityClass::Person, 25),
    (EntityClass::City, 10),
    (EntityClass::Company, 10),
    (EntityClass::Book, 8),
    (EntityClass::Album, 7),
    (EntityClass::University, 4),
    (EntityClass::Band, 6),
    (EntityClass::River, 5),
];

fn draw_start(context: &mut DraftContext<'_>, weights: &[(EntityClass, u64)]) -> Entity {
    let mut left = context.random.below(weights.iter().map(|(_, w)| w).sum());
    let mut class = weights[0].0;
    for &(candidate, weight) in weights {
        class = candidate;
        if left < weight {
            break;
        }
        left -= weight;
    }
    draw_entity(context, class)
}

/// An entity of a class, of the well-known ones more often than not.
fn draw_entity(context: &mut DraftContext<'_>, class: EntityClass) -> Entity {
    let entity = Entity { class, index: context.random.below(context.world.class_size(class)) };
    if context.random.chance(context.difficulty.fame) { context.world.well_known(entity) } else { entity }
}

/// A chain of `hops` passages: each links to the next, and the last states the answer.
pub(crate) fn draw_chain(context: &mut DraftContext<'_>, hops: usize) -> Option<QuestionDraft> {
    let mut path = vec![draw_start(context, &STARTS)];
    let mut facts: Vec<StatedFact> = Vec::with_capacity(hops);
    while facts.len() < hops {
        let at = path[facts.len()];
        let is_last = facts.len() + 1 == hops;
        if facts.len() == 1 && context.want_reciprocal && !context.plan_passage(at).mentions(path[0]) {
            return None;
        }
        let fact = context.any_fact(at, |r| is_last || r.relation().phrase.is_some())?;
        if let FactObject::Entity(object) = fact.object {
            // No way back, and no intermediate name equal to the answer's.
            let name = context.world.name(object);
            if path.contains(&object) || path.iter().any(|&e| context.world.name(e) == name) {
                return None;
            }
            path.push(object);
        }
        facts.push(fact);
    }
    // The name in "Springfield, Arbia" includes its country.
    if facts[0].relation.relation().range == ObjectRange::CountryOfCity && context.world.shares_name(path[0]) {
        return None;
    }
    let mut subject = context.pinpoint(path[0]);
    for (n, fact) in facts[..hops - 1].iter().enumerate() {
        let place = if n + 2 == hops { PhrasePosition::Last } else { PhrasePosition::Inner };
        subject = context.object_phrase(fact, &subject, place)?;
    }
    let last = &facts[hops - 1];
    let text = tidy_punctuation(&context.wording_of(last, &last.relation.relation().asks).replace("{x}", &subject));
    let answer = DraftAnswer::Object(facts[hops - 1].object.clone());
    let follows = (0..hops).map(|n| n.checked_sub(1)).collect();
    Some(QuestionDraft { kind: "bridge", comparison: None, text, answer, facts, follows })
}

/// The kind of a comparison.
#[derive(Debug, Clone, Copy)]
enum ComparisonKind {
    Same { wanted: bool },
    First,
    Last,
}

impl ComparisonKind {
    fn draw(context: &mut DraftContext<'_>, relation: RelationId) -> Option<Self> {
        let schema = relation.relation();
        let mut choices = Vec::with_capacity(4);
        if schema.same.is_some() {
            choices.extend([Self::Same { wanted: true }, Self::Same { wanted: false }]);
        }
        if schema.first.is_some() {
            choices.extend([Self::First, Self::Last]);
        }
        (!choices.is_empty()).then(|| choices[context.random.below(choices.len() as u64) as usize])
    }

    fn name(self) -> &'static str {
        match self {
            Self::Same { .. } => "same",
            Self::First => "first",
            Self::Last => "last",
        }
    }

    fn wordings(self, relation: RelationId) -> Option<&'static Wordings> {
        let schema = relation.relation();
        match self {
            Self::Same { .. } => schema.same.as_ref(),
            Self::First => schema.first.as_ref(),
            Self::Last => schema.last.as_ref(),
        }
    }

    /// The answer, given both facts and the entity that names each side. `None` if they do not decide it as wanted.
    fn decide_answer(self, a: (&FactObject, Entity), b: (&FactObject, Entity)) -> Option<DraftAnswer> {
        match (self, a.0, b.0) {
            (Self::Same { wanted }, x, y) => ((x == y) == wanted).then_some(DraftAnswer::YesNo(wanted)),
            (_, FactObject::Value(_, x), FactObject::Value(_, y)) if x == y => None,
            (Self::First, FactObject::Value(_, x), FactObject::Value(_, y)) => {
                Some(DraftAnswer::Object(FactObject::Entity(if x < y { a.1 } else { b.1 })))
            }
            (Self::Last, FactObject::Value(_, x), FactObject::Value(_, y)) => {
                Some(DraftAnswer::Object(FactObject::Entity(if x > y { a.1 } else { b.1 })))
            }
            _ => None,
        }
    }
}

/// A second subject beside `fact`'s: one with the same object if wanted and possible, otherwise any of the class.
fn second_subject(context: &mut DraftContext<'_>, fact: &StatedFact, comparison: ComparisonKind) -> Option<Entity> {
    let class = fact.subject.class;
    if let (ComparisonKind::Same { wanted: true }, FactObject::Entity(object)) = (comparison, &fact.object) {
        let n = context.random.next_bits() >> 1;
        return context.world.subject_of(fact.relation, *object, n);
    }
    Some(draw_entity(context, class))
}

/// Two entities of a class compared by one relation.
pub(crate) fn draw_comparison(context: &mut DraftContext<'_>) -> Option<QuestionDraft> {
    let a = draw_start(context, &COMPARED);
    let fact_a = context.any_fact(a, |r| r.relation().same.is_some() || r.relation().first.is_some())?;
    let relation = fact_a.relation;
    let comparison = ComparisonKind::draw(context, relation)?;
    let b = second_subject(context, &fact_a, comparison)?;
    let fact_b = context.stated_fact(b, relation)?;
    let world = context.world;
    // A disambiguator would contain the compared year or country.
    if a == b || world.name(a) == world.name(b) || world.shares_name(a) || world.shares_name(b) {
        return None;
    }
    let answer = comparison.decide_answer((&fact_a.object, a), (&fact_b.object, b))?;
    let (name_a, name_b) = (context.pinpoint(a), context.pinpoint(b));
    let pattern = context.wording_of(&fact_a, comparison.wordings(relation)?);
    let text = pattern.replace("{a}", &name_a).replace("{b}", &name_b);
    Some(QuestionDraft {
        kind: "comparison",
        comparison: Some(comparison.name()),
        text,
        answer,
        facts: vec![fact_a, fact_b],
        follows: vec![None, None],
    })
}

/// Questions that pick a work or body by the age of its person, as in 2WikiMultihopQA; `{n}` the noun, `{r}` the
/// person's part.
pub(crate) const BY_AGE_FIRST: Wordings = [
    "Which {n} has the {r} who was born earlier, {a} or {b}?",
    "Which {n} has the older {r}, {a} or {b}?",
    "Of {a} and {b}, whose {r} saw the light of day before the other's?",
];
pub(crate) const BY_AGE_LAST: Wordings = [
    "Which {n} has the {r} who was born later, {a} or {b}?",
    "Which {n} has the younger {r}, {a} or {b}?",
    "Of {a} and {b}, whose {r} saw the light of day after the other's?",
];

/// The part played by a relation's person.
fn person_part(relation: RelationId) -> Option<&'static str> {
    part_of(relation.relation())
}

/// The part played by a relation's person, from its row of the schema.
pub(crate) fn part_of(relation: &Relation) -> Option<&'static str> {
    match relation.name {
        "director" => Some("director"),
        "starring" => Some("star"),
        "composer" => Some("composer"),
        "author" => Some("author"),
        "lead singer" => Some("lead singer"),
        "founded by" => Some("founder"),
        _ => None,
    }
}

/// True if two of a comparison's passages are the same, or if its beginnings `a` and `b` have no distinct names.
fn is_ambiguous(world: &Entities, bridge: RelationId, [a, end_a, b, end_b]: [Entity; 4]) -> bool {
    let mut four = vec![a, end_a, b, end_b];
    four.sort();
    four.dedup();
    let shared =
        bridge.relation().range == ObjectRange::CountryOfCity && (world.shares_name(a) || world.shares_name(b));
    four.len() < 4 || world.name(a) == world.name(b) || shared
}

/// Two chains of two passages, compared at their ends.
pub(crate) fn draw_bridge_comparison(context: &mut DraftContext<'_>) -> Option<QuestionDraft> {
    let a = draw_start(context, &COMPARED);
    let bridge_a = context.any_fact(a, |r| r.relation().phrase.is_some())?;
    let FactObject::Entity(end_a) = bridge_a.object else { return None };
    let fact_a = context.any_fact(end_a, |r| {
        r.relation().same.is_some() || person_part(bridge_a.relation).is_some() && r.relation().first.is_some()
    })?;
    let relation = fact_a.relation;
    let comparison = ComparisonKind::draw(context, relation)?;
    let by_age = matches!(comparison, ComparisonKind::First | ComparisonKind::Last);
    if by_age && person_part(bridge_a.relation).is_none() {
        return None;
    }
    let wants_same = matches!(comparison, ComparisonKind::Same { wanted: true });
    let b = if wants_same {
        let end_b = second_subject(context, &fact_a, comparison)?;
        let n = context.random.next_bits() >> 1;
        context.world.subject_of(bridge_a.relation, end_b, n)?
    } else {
        draw_entity(context, a.class)
    };
    let bridge_b = context.stated_fact(b, bridge_a.relation)?;
    let FactObject::Entity(end_b) = bridge_b.object else { return None };
    let fact_b = context.stated_fact(end_b, relation)?;
    if is_ambiguous(context.world, bridge_a.relation, [a, end_a, b, end_b]) {
        return None;
    }
    let answer = comparison.decide_answer((&fact_a.object, a), (&fact_b.object, b))?;
    let (name_a, name_b) = (context.pinpoint(a), context.pinpoint(b));
    let text = if by_age {
        let wordings = if matches!(comparison, ComparisonKind::First) { &BY_AGE_FIRST } else { &BY_AGE_LAST };
        let pattern = context
            .choose_wording(wordings)
            .replace("{n}", a.class.noun())
            .replace("{r}", person_part(bridge_a.relation)?);
        pattern.replace("{a}", &name_a).replace("{b}", &name_b)
    } else {
        let phrase_a = context.object_phrase(&bridge_a, &name_a, PhrasePosition::Inner)?;
        let phrase_b = context.object_phrase(&bridge_b, &name_b, PhrasePosition::Inner)?;
        let pattern = context.wording_of(&fact_a, comparison.wordings(relation)?);
        pattern.replace("{a}", &phrase_a).replace("{b}", &phrase_b)
    };
    Some(QuestionDraft {
        kind: "bridge_comparison",
        comparison: Some(comparison.name()),
        text: tidy_punctuation(&text),
        answer,
        facts: vec![bridge_a, fact_a, bridge_b, fact_b],
        follows: vec![None, Some(0), None, Some(2)],
    })
}
