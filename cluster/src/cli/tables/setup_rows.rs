//! What differs between the set-ups of two configurations, as rows of a table.
//!
//! Two methods share few parameters and services, and a list of all that one has and the other lacks hides what
//! matters. So a service that only one side uses is one row, and so are all parameters of one of two methods.

use super::UNKNOWN;
use hopeval_jobs::report::compare_runs::SetupDifference;

/// The rows of a table, and whether they leave settings out.
pub(super) fn setup_rows(setup: &[SetupDifference]) -> (Vec<Vec<String>>, bool) {
    let methods_differ = setup.iter().any(|found| found.setting == "method" && is_another_method(found));
    let is_own =
        |found: &SetupDifference| methods_differ && found.setting.starts_with("parameter ") && is_of_one_side(found);
    let mut rows = Vec::new();
    for (at, found) in setup.iter().enumerate() {
        let service = service_and_key(found).filter(|(name, _)| is_service_of_one_side(setup, name));
        match service {
            Some((name, "kind")) => rows.push(service_row(setup, name, found)),
            Some(_) => {}
            None if !is_own(found) => rows.push(cells(&found.setting, &found.against, &found.compared)),
            None if !setup[..at].iter().any(is_own) => {
                rows.push(own_parameters(setup.iter().filter(|found| is_own(found))))
            }
            None => {}
        }
    }
    let is_left_out = rows.len() < setup.len();
    (rows, is_left_out)
}

/// How many parameters each of two methods has alone.
fn own_parameters<'a>(own: impl Iterator<Item = &'a SetupDifference>) -> Vec<String> {
    let (compared, against): (Vec<_>, Vec<_>) = own.partition(|found| found.against == UNKNOWN);
    cells("number of own parameters", &against.len().to_string(), &compared.len().to_string())
}

/// A service of one side: its kind, and its model if it has one.
fn service_row(setup: &[SetupDifference], name: &str, kind: &SetupDifference) -> Vec<String> {
    let model = setup.iter().find(|found| service_and_key(found) == Some((name, "model")));
    let side = |kind: &str, model: Option<&String>| match model {
        Some(model) if kind != UNKNOWN => format!("{kind} {model}"),
        _ => kind.to_owned(),
    };
    let against = side(&kind.against, model.map(|found| &found.against));
    let compared = side(&kind.compared, model.map(|found| &found.compared));
    cells(&format!("service {name}"), &against, &compared)
}

fn cells(setting: &str, against: &str, compared: &str) -> Vec<String> {
    [setting, against, compared].map(str::to_owned).into()
}

/// Whether the two methods have different names, and not only versions.
fn is_another_method(method: &SetupDifference) -> bool {
    let name = |side: &str| side.split_whitespace().next().map(str::to_owned);
    name(&method.against) != name(&method.compared)
}

/// The service and the key of a row such as `service llm: model`.
fn service_and_key(found: &SetupDifference) -> Option<(&str, &str)> {
    found.setting.strip_prefix("service ")?.rsplit_once(": ")
}

/// Whether one side does not use a service at all: each service has a kind.
fn is_service_of_one_side(setup: &[SetupDifference], name: &str) -> bool {
    setup.iter().any(|found| service_and_key(found) == Some((name, "kind")) && is_of_one_side(found))
}

fn is_of_one_side(found: &SetupDifference) -> bool {
    found.against == UNKNOWN || found.compared == UNKNOWN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference([setting, against, compared]: [&str; 3]) -> SetupDifference {
        let [setting, against, compared] = [setting, against, compared].map(str::to_owned);
        SetupDifference { setting, against, compared }
    }

    #[test]
    fn what_one_of_two_methods_has_alone_is_told_in_a_few_rows() {
        let setup = [
            ["method", "one_step version 1", "promptrank version 2"],
            ["parameter hops", "–", "2"],
            ["parameter k", "20", "–"],
            ["parameter lambda", "–", "0.9"],
            ["parameter retriever", "bm25", "tfidf"],
            ["service bm25: fingerprint", "1c10", "–"],
            ["service bm25: k1", "0.9", "–"],
            ["service bm25: kind", "bm25", "–"],
            ["service corpus: fingerprint", "–", "f1a2"],
            ["service scorer: kind", "–", "lm"],
            ["service scorer: model", "–", "hopeval:scorer"],
            ["service tfidf: ngrams", "1", "2"],
            ["service tfidf: stem", "–", "true"],
        ]
        .map(difference);
        let wanted = [
            ["method", "one_step version 1", "promptrank version 2"],
            ["number of own parameters", "1", "2"],
            ["parameter retriever", "bm25", "tfidf"],
            ["service bm25", "bm25", "–"],
            ["service corpus: fingerprint", "–", "f1a2"],
            ["service scorer", "–", "lm hopeval:scorer"],
            ["service tfidf: ngrams", "1", "2"],
            ["service tfidf: stem", "–", "true"],
        ];
        assert_eq!(setup_rows(&setup), (wanted.map(|row| row.map(str::to_owned).into()).into(), true));
    }

    #[test]
    fn a_parameter_that_a_version_of_a_method_lacks_has_its_row() {
        let setup = [["method", "migres version 3", "migres version 4"], ["parameter draws", "–", "5"]].map(difference);
        let (rows, is_left_out) = setup_rows(&setup);
        assert_eq!((rows.len(), &rows[1][0], is_left_out), (2, &"parameter draws".to_owned(), false));
    }
}
