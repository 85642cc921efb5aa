//! Answers a question from the facts of a prompt: follows relations from passage to passage and compares.
//!
//! The answer of every reading of the question is tried. The one with an answer wins, then the one with more facts,
//! then the first.

use std::sync::Arc;

use hopeval_world::order_value;
use rustc_hash::FxHashMap;

use crate::asking::{NamedEntity, NounPhrase, QuestionReading};
use crate::grammar::{ComparisonRule, WorldGrammar};
use crate::reading::{OwnerSide, PassageOwner, PassageReading, without_article};

/// The facts of a prompt, indexed.
pub(crate) struct PromptFacts {
    grammar: &'static WorldGrammar,
    owners: Vec<OwnerFacts>,
    /// Owners by bare name.
    names: FxHashMap<String, Vec<usize>>,
    /// Objects by the subject's name and the relation, stated in passages of others.
    mentions: FxHashMap<(String, usize), String>,
}

/// The facts of one passage's entity.
struct OwnerFacts {
    owner: PassageOwner,
    facts: Vec<(usize, String)>,
    /// Subjects that this passage mentions as linked to it.
    linked: Vec<String>,
}

/// A fact that an answer uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsedFact {
    pub(crate) relation: usize,
    pub(crate) subject: String,
    pub(crate) object: String,
    /// The title of the passage that states it; `None` if another's passage does.
    pub(crate) title: Option<String>,
}

/// A fact that an answer lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingFact {
    pub(crate) relation: usize,
    pub(crate) subject: String,
}

/// What the facts say of a question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FoundAnswer {
    /// The answer; `None` if a fact is missing.
    pub(crate) answer: Option<String>,
    /// The facts, in the order of the hops.
    pub(crate) facts: Vec<UsedFact>,
    /// The first missing fact.
    pub(crate) missing: Option<MissingFact>,
    /// Other answers of the same kind that the prompt holds, for mistakes.
    pub(crate) rivals: Vec<String>,
}

/// An entity during solving: its name and the passages that may be about it.
struct FoundEntity {
    name: String,
    owners: Vec<usize>,
}

impl PromptFacts {
    pub(crate) fn new(readings: &[Arc<[PassageReading]>]) -> Self {
        let mut facts = Self {
            grammar: WorldGrammar::shared(),
            owners: vec![],
            names: FxHashMap::default(),
            mentions: FxHashMap::default(),
        };
        for passage in readings.iter().flat_map(|line| line.iter()) {
            facts.add_passage(passage);
        }
        facts
    }

    fn add_passage(&mut self, passage: &PassageReading) {
        let own = passage.owner.as_ref().map(|owner| self.owner_place(owner));
        for fact in &passage.facts {
            match (own, fact.owner_side) {
                (Some(own), OwnerSide::Subject) => {
                    self.owners[own].facts.push((fact.relation, fact.object.clone()));
                }
                (Some(own), OwnerSide::Object) => {
                    self.owners[own].linked.push(fact.subject.clone());
                    self.add_mention(&fact.subject, fact.relation, &fact.object);
                }
                _ => self.add_mention(&fact.subject, fact.relation, &fact.object),
            }
        }
    }

    fn add_mention(&mut self, subject: &str, relation: usize, object: &str) {
        let key = (without_article(subject).to_owned(), relation);
        self.mentions.entry(key).or_insert_with(|| object.to_owned());
    }

    fn owner_place(&mut self, owner: &PassageOwner) -> usize {
        let same = |known: &OwnerFacts| {
            known.owner.title == owner.title && (owner.noun.is_none() || known.owner.noun == owner.noun)
        };
        if let Some(place) = self.owners.iter().position(same) {
            return place;
        }
        let place = self.owners.len();
        self.names.entry(without_article(&owner.name).to_owned()).or_default().push(place);
        self.owners.push(OwnerFacts { owner: owner.clone(), facts: vec![], linked: vec![] });
        place
    }

    /// The titles of the passages, in their order.
    pub(crate) fn titles(&self) -> Vec<String> {
        self.owners.iter().map(|owner| owner.owner.title.clone()).collect()
    }

    /// The best answer over all readings of a question.
    pub(crate) fn solve(&self, readings: &[QuestionReading]) -> FoundAnswer {
        let mut best = FoundAnswer::default();
        for reading in readings {
            let found = self.solve_reading(reading);
            let rank = |found: &FoundAnswer| (found.answer.is_some(), found.facts.len(), found.missing.is_some());
            if rank(&found) > rank(&best) {
                best = found;
            }
        }
        best
    }

    fn solve_reading(&self, reading: &QuestionReading) -> FoundAnswer {
        let mut found = FoundAnswer::default();
        found.answer = match reading {
            QuestionReading::Object { relation, of } => self.ask_object(*relation, of, &mut found),
            QuestionReading::Comparison { rule, a, b } => self.compare(*rule, a, b, &mut found),
        };
        if found.answer.is_none() {
            found.rivals.clear();
        }
        found
    }

    fn ask_object(&self, relation: usize, of: &NounPhrase, found: &mut FoundAnswer) -> Option<String> {
        let subject = self.resolve(of, found)?;
        let object = self.follow(relation, &subject, found)?;
        let same = |known: &&(usize, String)| known.0 == relation && known.1 != object;
        let rivals = self.owners.iter().flat_map(|owner| owner.facts.iter().filter(same));
        found.rivals = rivals.map(|(_, object)| object.clone()).collect();
        if found.rivals.is_empty() {
            let nouns = &self.grammar.relations[relation].object_nouns;
            let fits = |owner: &&OwnerFacts| owner.owner.noun.is_some_and(|noun| nouns.contains(&noun));
            let names = self.owners.iter().filter(fits).map(|owner| owner.owner.name.clone());
            found.rivals = names.filter(|name| *name != object).collect();
        }
        Some(object)
    }

    fn compare(&self, rule: ComparisonRule, a: &NounPhrase, b: &NounPhrase, found: &mut FoundAnswer) -> Option<String> {
        // Both sides are followed, so that the chain of thought has what is known.
        let left = self.value_for(rule, a, found);
        let right = self.value_for(rule, b, found);
        let ((name_a, value_a), (name_b, value_b)) = (left?, right?);
        let smaller = match rule {
            ComparisonRule::Same { .. } => {
                let (answer, rival) = if value_a == value_b { ("yes", "no") } else { ("no", "yes") };
                found.rivals = vec![rival.to_owned()];
                return Some(answer.to_owned());
            }
            ComparisonRule::Order { smaller, .. } | ComparisonRule::Age { smaller, .. } => smaller,
        };
        let is_a = match smaller {
            true => order_value(&value_a) < order_value(&value_b),
            false => order_value(&value_a) > order_value(&value_b),
        };
        let (answer, rival) = if is_a { (name_a, name_b) } else { (name_b, name_a) };
        found.rivals = vec![rival];
        Some(answer)
    }

    /// A side's name and the value that it is compared by.
    fn value_for(&self, rule: ComparisonRule, side: &NounPhrase, found: &mut FoundAnswer) -> Option<(String, String)> {
        let entity = self.resolve(side, found)?;
        let name = entity.name.clone();
        let value = match rule {
            ComparisonRule::Same { relation } | ComparisonRule::Order { relation, .. } => {
                self.follow(relation, &entity, found)?
            }
            ComparisonRule::Age { bridge, .. } => {
                let person = self.follow(bridge, &entity, found)?;
                let person = self.object_entity(bridge, &name, &person);
                let birth = self.grammar.relations.iter().position(|relation| relation.name == "date of birth")?;
                self.follow(birth, &person, found)?
            }
        };
        Some((name, value))
    }

    fn resolve(&self, phrase: &NounPhrase, found: &mut FoundAnswer) -> Option<FoundEntity> {
        match phrase {
            NounPhrase::Name(named) => Some(self.find_named(named)),
            NounPhrase::Object { relation, of } => {
                let subject = self.resolve(of, found)?;
                let object = self.follow(*relation, &subject, found)?;
                Some(self.object_entity(*relation, &subject.name, &object))
            }
        }
    }

    /// The object of a relation; if no passage states it, it is noted as missing.
    fn follow(&self, relation: usize, subject: &FoundEntity, found: &mut FoundAnswer) -> Option<String> {
        let nouns = &self.grammar.relations[relation].subject_nouns;
        let own = subject.owners.iter().map(|&place| &self.owners[place]).find_map(|owner| {
            let fits = owner.owner.noun.is_none_or(|noun| nouns.contains(&noun));
            let (_, object) = owner.facts.iter().find(|(stated, _)| fits && *stated == relation)?;
            Some((object.clone(), Some(owner.owner.title.clone())))
        });
        let mentioned = || {
            let key = (without_article(&subject.name).to_owned(), relation);
            self.mentions.get(&key).map(|object| (object.clone(), None))
        };
        let Some((object, title)) = own.or_else(mentioned) else {
            let missing = MissingFact { relation, subject: subject.name.clone() };
            found.missing.get_or_insert(missing);
            return None;
        };
        let fact = UsedFact { relation, subject: subject.name.clone(), object: object.clone(), title };
        if !found.facts.contains(&fact) {
            found.facts.push(fact);
        }
        Some(object)
    }

    /// The entity of an object: passages that mention the subject come first among namesakes.
    fn object_entity(&self, relation: usize, subject: &str, object: &str) -> FoundEntity {
        let nouns = &self.grammar.relations[relation].object_nouns;
        let mut owners = self.owners_named(object);
        owners.retain(|&place| self.owners[place].owner.noun.is_none_or(|noun| nouns.contains(&noun)));
        owners.sort_by_key(|&place| !self.owners[place].linked.iter().any(|linked| linked == subject));
        FoundEntity { name: object.to_owned(), owners }
    }

    /// The entity that a question names.
    fn find_named(&self, named: &NamedEntity) -> FoundEntity {
        let mut owners = self.owners_named(&named.name);
        if owners.is_empty()
            && let Some((town, _country)) = named.name.split_once(", ")
        {
            owners = self.owners_named(town);
        }
        if let Some(noun) = named.noun {
            owners.retain(|&place| self.owners[place].owner.noun.is_none_or(|known| known == noun));
        }
        if let Some(year) = &named.year {
            // The first holder of a name has no year in its title.
            owners.sort_by_key(|&place| match &self.owners[place].owner {
                owner if owner.title.contains(year.as_str()) => 0,
                owner if owner.title == owner.name => 1,
                _ => 2,
            });
        }
        FoundEntity { name: named.name.clone(), owners }
    }

    fn owners_named(&self, name: &str) -> Vec<usize> {
        self.names.get(without_article(name)).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use hopeval_world::{World, WorldSettings, WorldSplit};

    use super::*;
    use crate::asking::find_question;
    use crate::reading::PassageReader;

    /// The share of a world's questions that are answered rightly from their gold passages in a form of prompt.
    fn share_answered(split: WorldSplit, form: impl Fn(&str, &str) -> String) -> f64 {
        let world = World::new(WorldSettings::new(300, 3000, 7, split)).expect("a world");
        let mut reader = PassageReader::new();
        let mut right = 0;
        let mut wrong = vec![];
        for question in world.questions() {
            let question = question.expect("a question");
            let passages = question.gold.iter().map(|gold| world.passage_by_id(&gold.id).expect("a passage"));
            let mut prompt: String = passages.map(|passage| form(&passage.title, &passage.text)).collect();
            prompt.push_str(&format!("Question: {}\nAnswer:", question.text));
            let facts = PromptFacts::new(&reader.read_text(&prompt));
            let asked = find_question(WorldGrammar::shared(), &prompt);
            let found = asked.map(|asked| facts.solve(&asked.readings)).unwrap_or_default();
            match &found.answer {
                Some(answer) if question.answers.contains(answer) => right += 1,
                _ => wrong.push((question.text, question.answers, found)),
            }
        }
        for wrong in wrong.iter().take(3) {
            // Shown only if the test fails.
            eprintln!("{wrong:?}");
        }
        f64::from(right) / 300.0
    }

    #[test]
    fn gold_passages_answer_their_questions() {
        let titled = |title: &str, text: &str| format!("Wikipedia Title: {title}\n{text}\n\n");
        let numbered = |title: &str, text: &str| format!("[1] {title}: {text}\n");
        let bare = |_: &str, text: &str| format!("{text}\n");
        for split in [WorldSplit::Train, WorldSplit::Eval] {
            for (form, share) in [
                ("titled", share_answered(split, titled)),
                ("numbered", share_answered(split, numbered)),
                ("bare", share_answered(split, bare)),
            ] {
                assert!(share >= 0.95, "{form} passages of {split}: {share}");
            }
        }
    }
}
