//! `2wikimultihop_evaluate_v1.1.py`: sixteen figures in percent. The script rounds them to two digits.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;

use super::input::FileRow;
use super::{FileRole, MeasureError, OfficialFigures, ScoreSums, input};
use crate::answer::{AnswerScorer, Profile};
use crate::facts::{EvidenceTriple, SetScore, evidences, joint, supporting_facts_lowered};

const NAMES: [&str; 16] = [
    "em",
    "f1",
    "prec",
    "recall",
    "sp_em",
    "sp_f1",
    "sp_prec",
    "sp_recall",
    "evi_em",
    "evi_f1",
    "evi_prec",
    "evi_recall",
    "joint_em",
    "joint_f1",
    "joint_prec",
    "joint_recall",
];

/// Aliases and demonyms by Wikidata id.
type AliasMap = HashMap<String, BTreeSet<String>>;

/// The figures in the script's order. A question without prediction adds nothing and stays in the denominator; the
/// joint figures need all three parts.
pub(super) fn score_files(
    predictions: impl Read,
    gold: impl Read,
    aliases: Option<impl Read>,
) -> Result<OfficialFigures, MeasureError> {
    let predictions = input::read_object(FileRole::Predictions, predictions)?;
    let answers = predictions.object("answer")?;
    let (facts, triples) = (predictions.object("sp")?, predictions.object("evidence")?);
    let aliases = aliases.map_or(Ok(AliasMap::new()), read_aliases)?;
    let gold = input::read_rows(FileRole::Gold, gold)?;
    if gold.is_empty() {
        return Err(MeasureError::Empty { role: FileRole::Gold });
    }
    let (questions, n) = (gold.len() as u64, gold.len() as f64);
    let mut scorer = AnswerScorer::new();
    let (mut predicted_answers, mut predicted_facts, mut predicted_triples) = (0, 0, 0);
    let mut sums = [ScoreSums::default(); 4];
    for mut question in gold {
        let id = question.take_id("_id")?;
        let golds = gold_answers(&question, &aliases)?;
        let mut parts: Vec<SetScore> = Vec::with_capacity(3);
        if let Some(answer) = answers.get(&id) {
            let answer = answer.as_str().ok_or_else(|| {
                predictions.field_error(
                    &format!("answer.{id}"),
                    format!("is {}, allowed is a string", input::value_kind(answer)),
                )
            })?;
            let score = scorer.score(Profile::TwoWiki, answer, &golds).into();
            predicted_answers += 1;
            sums[0].add(score);
            parts.push(score);
        }
        if let Some(predicted) = facts.get(&id) {
            let predicted = predictions.facts(&format!("sp.{id}"), predicted)?;
            let gold = question.facts("supporting_facts", question.required("supporting_facts")?)?;
            let score = supporting_facts_lowered(&predicted, &gold);
            predicted_facts += 1;
            sums[1].add(score);
            parts.push(score);
        }
        if let Some(predicted) = triples.get(&id) {
            let field = format!("evidence.{id}");
            let predicted = predictions.list_of(&field, predicted, |triple| predictions.texts_of(&field, triple))?;
            let score = evidences(&predicted, &gold_evidences(&question, &aliases)?);
            predicted_triples += 1;
            sums[2].add(score);
            parts.push(score);
        }
        if let [answer, facts, triples] = parts[..] {
            sums[3].add(joint(&[answer, facts, triples]));
        }
    }
    let predicted = vec![("answer", predicted_answers), ("sp", predicted_facts), ("evidence", predicted_triples)];
    let values = sums.into_iter().flat_map(ScoreSums::values);
    let figures = NAMES.into_iter().zip(values).map(|(name, sum)| (name, sum / n * 100.0)).collect();
    Ok(OfficialFigures { figures, questions, predicted })
}

fn read_aliases(reader: impl Read) -> Result<AliasMap, MeasureError> {
    let mut aliases = AliasMap::new();
    for mut row in input::read_rows(FileRole::Aliases, reader)? {
        let id = row.take_id("Q_id")?;
        let mut names: BTreeSet<String> = row.texts("aliases")?.into_iter().collect();
        names.extend(row.texts("demonyms")?);
        aliases.insert(id, names);
    }
    Ok(aliases)
}

/// The answer, and the aliases and demonyms of `answer_id`.
fn gold_answers(question: &FileRow, aliases: &AliasMap) -> Result<Vec<String>, MeasureError> {
    let mut golds = question.answers("answer")?;
    if question.optional("answer_id").is_some()
        && let Some(names) = aliases.get(question.text("answer_id")?)
    {
        golds.extend(names.iter().cloned());
    }
    Ok(golds)
}

/// Every spelling of every gold triple: subject and object by name, or by an alias of their id.
fn gold_evidences(question: &FileRow, aliases: &AliasMap) -> Result<Vec<Vec<EvidenceTriple>>, MeasureError> {
    let triples = |field: &str| -> Result<Vec<EvidenceTriple>, MeasureError> {
        let Some(value) = question.optional(field) else { return Ok(Vec::new()) };
        question.list_of(field, value, |triple| {
            <EvidenceTriple>::try_from(question.texts_of(field, triple)?)
                .map_err(|_| question.field_error(field, "has an entry that is not [subject, relation, object]"))
        })
    };
    question.required("evidences")?;
    let (named, ids) = (triples("evidences")?, triples("evidences_id")?);
    if !ids.is_empty() && ids.len() != named.len() {
        let problem = format!("has {} entries, \"evidences\" has {}", ids.len(), named.len());
        return Err(question.field_error("evidences_id", problem));
    }
    let none = BTreeSet::new();
    let spellings = |name: &String, id: Option<&String>| -> Vec<String> {
        let others = id.and_then(|id| aliases.get(id)).unwrap_or(&none);
        std::iter::once(name).chain(others).cloned().collect()
    };
    Ok(named
        .iter()
        .enumerate()
        .map(|(i, [subject, relation, object])| {
            let id = ids.get(i);
            let objects = spellings(object, id.map(|id| &id[2]));
            let mut gold = Vec::new();
            for subject in spellings(subject, id.map(|id| &id[0])) {
                gold.extend(objects.iter().map(|object| [subject.clone(), relation.clone(), object.clone()]));
            }
            gold
        })
        .collect())
}
