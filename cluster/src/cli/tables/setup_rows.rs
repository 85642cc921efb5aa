//! What differs between the set-ups of two configurations, as rows of a table.
//!
//! Two methods share few parameters and services, and a list of all that one has and the other lacks hides what
//! matters. So a service that only one of them uses is one row, and their own parameters are one, too. A service has
//! all its rows where the other method has one that would read the same, such as BM25 with other settings.

use super::UNKNOWN;
use hopeval_jobs::report::compare_runs::SetupDifference;

/// The rows of a table, and whether they leave settings out.
pub(super) fn setup_rows(setup: &[SetupDifference]) -> (Vec<Vec<String>>, bool) {
    let (mut rows, mut is_left_out) = (Vec::new(), false);
    let of_two_methods = setup.iter().any(|found| found.setting == "method" && is_another_method(found));
    for (at, found) in setup.iter().enumerate() {
        if of_two_methods && is_own_parameter(found) {
            is_left_out = true;
            if !setup[..at].iter().any(is_own_parameter) {
                rows.push(own_parameters(setup));
            }
        } else if of_two_methods && let Some((name, key)) = own_service(setup, found) {
            match key {
                "kind" => rows.push(cells(&format!("service {name}"), &service_names(setup, found))),
                "model" => {}
                _ => is_left_out = true,
            }
        } else {
            rows.push(cells(&found.setting, &[&found.against, &found.compared].map(Clone::clone)));
        }
    }
    (rows, is_left_out)
}

fn cells(setting: &str, [against, compared]: &[String; 2]) -> Vec<String> {
    [setting, against, compared].map(str::to_owned).into()
}

/// Whether the two methods have different names, and not only versions.
fn is_another_method(method: &SetupDifference) -> bool {
    let name = |side: &str| side.split_whitespace().next().map(str::to_owned);
    name(&method.against) != name(&method.compared)
}

fn is_of_one_side(found: &SetupDifference) -> bool {
    found.against == UNKNOWN || found.compared == UNKNOWN
}

fn is_own_parameter(found: &SetupDifference) -> bool {
    found.setting.starts_with("parameter ") && is_of_one_side(found)
}

/// How many parameters each of two methods has alone.
fn own_parameters(setup: &[SetupDifference]) -> Vec<String> {
    let count = |is_of_side: fn(&SetupDifference) -> bool| {
        setup.iter().filter(|found| is_own_parameter(found) && is_of_side(found)).count().to_string()
    };
    cells(
        "number of own parameters",
        &[count(|found| found.compared == UNKNOWN), count(|found| found.against == UNKNOWN)],
    )
}

/// The service and the key of a row such as `service llm: model`.
fn service_and_key(found: &SetupDifference) -> Option<(&str, &str)> {
    found.setting.strip_prefix("service ")?.rsplit_once(": ")
}

/// The service and the key of a row, if one side alone uses the service and the other has none that reads the same.
fn own_service<'a>(setup: &[SetupDifference], found: &'a SetupDifference) -> Option<(&'a str, &'a str)> {
    let (name, key) = service_and_key(found)?;
    // Each service has a kind.
    let kinds = || setup.iter().filter(|found| service_and_key(found).is_some_and(|(_, key)| key == "kind"));
    let own =
        kinds().find(|kind| service_and_key(kind).is_some_and(|(other, _)| other == name) && is_of_one_side(kind))?;
    let [against, compared] = service_names(setup, own);
    let has_peer = kinds().any(|kind| service_names(setup, kind) == [compared.as_str(), &against]);
    (!has_peer).then_some((name, key))
}

/// What both sides have of a service, by the row of its kind: the kind, and the model if there is one.
fn service_names(setup: &[SetupDifference], kind: &SetupDifference) -> [String; 2] {
    let name = service_and_key(kind).map(|(name, _)| name);
    let model = setup
        .iter()
        .find(|found| service_and_key(found).is_some_and(|(service, key)| Some(service) == name && key == "model"));
    let side = |kind: &str, model: Option<&String>| match model {
        Some(model) if kind != UNKNOWN => format!("{kind} {model}"),
        _ => kind.to_owned(),
    };
    [side(&kind.against, model.map(|found| &found.against)), side(&kind.compared, model.map(|found| &found.compared))]
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
    fn two_services_that_read_the_same_have_all_their_rows() {
        let of = |name: &str, model: &str, sides: fn(&str) -> [&str; 2]| {
            [("kind", "lm"), ("model", model), ("threads", "2")].map(|(key, value)| {
                let [against, compared] = sides(value);
                difference([&format!("service {name}: {key}"), against, compared])
            })
        };
        let against: fn(&str) -> [&str; 2] = |value| [value, "–"];
        let compared: fn(&str) -> [&str; 2] = |value| ["–", value];
        let method = difference(["method", "ircot version 3", "iter_retgen version 1"]);
        let told = |other: &str| {
            let services = [of("a", "small", against), of("b", other, compared)].into_iter().flatten();
            let setup: Vec<_> = std::iter::once(method.clone()).chain(services).collect();
            let (rows, is_left_out) = setup_rows(&setup);
            (rows.into_iter().map(|row| row.join(" | ")).collect::<Vec<_>>(), is_left_out)
        };
        let (rows, is_left_out) = told("large");
        assert_eq!(
            (&rows[1..], is_left_out),
            (&["service a | lm small | –", "service b | – | lm large"].map(Into::into)[..], true)
        );
        let (rows, is_left_out) = told("small");
        assert_eq!((rows.len(), rows[3].as_str(), is_left_out), (7, "service a: threads | 2 | –", false));
        // Of one method nothing is left out.
        let same = [&[difference(["parameter k", "5", "–"])], &of("a", "small", against)[..]].concat();
        let (rows, is_left_out) = setup_rows(&same);
        assert_eq!((rows.len(), is_left_out), (4, false));
    }

    #[test]
    fn a_parameter_that_a_version_of_a_method_lacks_has_its_row() {
        let setup = [["method", "migres version 3", "migres version 4"], ["parameter draws", "–", "5"]].map(difference);
        let (rows, is_left_out) = setup_rows(&setup);
        assert_eq!((rows.len(), &rows[1][0], is_left_out), (2, &"parameter draws".to_owned(), false));
    }
}
