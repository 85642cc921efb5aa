//! `[service.NAME.sweep]`: keys of a service with several values each.
//!
//! A job with such a table is rewritten before it is read: the service becomes one service for each point of its grid,
//! named `sparse{b=0.4,k1=0.9}`, and a method that names it sweeps over these. So a run's record has the services
//! themselves, and nothing else of the program knows of their sweep.

use crate::bad_value::{BadValue, ensure};
use toml::{Table, Value};

/// The most services of one sweep: each may open a model or an index.
const MOST_SERVICES: usize = 1_000;

/// The tables of a method that are no parameters. A sweep's values may name services, as parameters do.
const NO_PARAMETERS: [&str; 7] = ["kind", "control", "sweep", "sweep_draw", "sweep_when", "replicates", "race"];

/// A service with a sweep.
struct SweptService {
    name: String,
    /// The services of its points, in order.
    points: Vec<Value>,
}

/// Whether some service has a sweep.
pub(super) fn has_swept_service(document: &Table) -> bool {
    let services = document.get("service").and_then(Value::as_table);
    services.is_some_and(|services| services.iter().any(|(_, service)| service.get("sweep").is_some()))
}

/// Writes every service with a sweep, and the methods and judges that name it, without it.
///
/// # Errors
/// A sweep without values, of too many services, or of a service that something else names than one parameter of a
/// method.
pub(super) fn expand_services(document: &mut Table) -> Result<(), BadValue> {
    let Some(services) = document.get_mut("service").and_then(Value::as_table_mut) else { return Ok(()) };
    let swept_names: Vec<String> =
        services.iter().filter(|(_, service)| service.get("sweep").is_some()).map(|(name, _)| name.clone()).collect();
    let mut swept = Vec::new();
    for name in swept_names {
        let Some(Value::Table(service)) = services.remove(&name) else { continue };
        let points =
            service_points(&name, service).map_err(|bad| bad.within_table(&format!("service.{name}.sweep")))?;
        swept.push(SweptService { name, points: points.iter().map(|(name, _)| Value::from(name.as_str())).collect() });
        services.extend(points.into_iter().map(|(name, service)| (name, Value::Table(service))));
    }
    for service in &swept {
        refuse_needed(services, service)?;
    }
    for kind in ["method", "judge"] {
        let Some(methods) = document.get_mut(kind).and_then(Value::as_table_mut) else { continue };
        for (name, method) in methods.iter_mut() {
            let Some(method) = method.as_table_mut() else { continue };
            for service in &swept {
                sweep_over(method, service).map_err(|bad| bad.within_table(&format!("{kind}.{name}")))?;
            }
        }
    }
    refuse_generators(document, &swept)
}

/// The services of a sweep's points, named. Keys are sorted, and the last one varies fastest.
fn service_points(name: &str, mut service: Table) -> Result<Vec<(String, Table)>, BadValue> {
    let sweep = match service.remove("sweep") {
        Some(Value::Table(sweep)) if !sweep.is_empty() => sweep,
        _ => return Err(BadValue::new("*", "no key", "a table of keys with several values each")),
    };
    let mut points = vec![(Vec::<String>::new(), service)];
    let mut keys: Vec<&String> = sweep.keys().collect();
    keys.sort();
    for key in keys {
        let values = sweep[key].as_array().filter(|values| !values.is_empty());
        let values =
            values.ok_or_else(|| BadValue::new(key, sweep[key].to_string(), "a list with at least one value"))?;
        if let Some((_, twice)) = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
            return Err(BadValue::new(key, format!("{twice} twice"), "values that each occur once"));
        }
        ensure(!points[0].1.contains_key(key), || {
            BadValue::new(key, "swept, and a value in the service's table", "one of the two")
        })?;
        ensure(points.len().saturating_mul(values.len()) <= MOST_SERVICES, || {
            BadValue::new(key, "more than 1000 services", "at most 1000 services of one sweep")
        })?;
        let with = |(labels, service): &(Vec<String>, Table), value: &Value| {
            let label = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let (mut labels, mut service) = (labels.clone(), service.clone());
            labels.push(format!("{key}={label}"));
            service.insert(key.clone(), value.clone());
            (labels, service)
        };
        points = points.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect();
    }
    Ok(points.into_iter().map(|(labels, service)| (format!("{name}{{{}}}", labels.join(",")), service)).collect())
}

/// Has a method sweep over the points of a service that it names.
fn sweep_over(method: &mut Table, service: &SweptService) -> Result<(), BadValue> {
    let is_named = |value: &Value| value.as_str() == Some(service.name.as_str());
    let naming: Vec<String> = method
        .iter()
        .filter(|(key, value)| !NO_PARAMETERS.contains(&key.as_str()) && is_named(value))
        .map(|(key, _)| key.clone())
        .collect();
    let swept = || method.get("sweep").and_then(Value::as_table).into_iter().flatten();
    let named_by_sweep: Vec<String> = swept()
        .filter(|(_, values)| values.as_array().is_some_and(|values| values.iter().any(is_named)))
        .map(|(key, _)| key.clone())
        .collect();
    let all: Vec<&str> = naming.iter().chain(&named_by_sweep).map(String::as_str).collect();
    ensure(all.len() <= 1, || {
        let allowed = "one parameter of a method, since its parameters would sweep over the service independently";
        BadValue::new(all.join(", "), format!("the swept service `{}` in each", service.name), allowed)
    })?;
    for (key, value) in method.iter().filter(|(key, _)| !NO_PARAMETERS.contains(&key.as_str())) {
        ensure(!value.as_array().is_some_and(|values| values.iter().any(is_named)), || {
            BadValue::new(key, format!("the swept service `{}` in a list", service.name), "services without a sweep")
        })?;
    }
    for key in naming {
        method.remove(&key);
        let sweep = method.entry("sweep").or_insert_with(|| Value::Table(Table::new()));
        let Some(sweep) = sweep.as_table_mut() else { continue };
        sweep.insert(key, Value::Array(service.points.clone()));
    }
    for key in named_by_sweep {
        if let Some(values) = method.get_mut("sweep").and_then(|sweep| sweep.get_mut(&key)) {
            name_points(values, service);
        }
    }
    // Conditions name values of the sweep.
    let conditions = method.get_mut("sweep_when").and_then(Value::as_table_mut).into_iter().flatten();
    for (_, condition) in conditions {
        condition.as_table_mut().into_iter().flatten().for_each(|(_, values)| name_points(values, service));
    }
    Ok(())
}

/// Puts the points of a service in its place in a list of values.
fn name_points(values: &mut Value, service: &SweptService) {
    let Some(list) = values.as_array_mut() else { return };
    if let Some(at) = list.iter().position(|value| value.as_str() == Some(service.name.as_str())) {
        list.splice(at..=at, service.points.iter().cloned());
    }
}

/// Refuses a swept service that another service needs.
fn refuse_needed(services: &Table, swept: &SweptService) -> Result<(), BadValue> {
    for (name, service) in services {
        let keys = service.as_table().into_iter().flatten();
        // A kind or a model may have the name of a service.
        let needs = |(key, value): &(&String, &Value)| {
            !["kind", "model"].contains(&key.as_str()) && value.as_str() == Some(swept.name.as_str())
        };
        if let Some((key, _)) = keys.into_iter().find(needs) {
            let found = format!("the swept service `{}`", swept.name);
            return Err(BadValue::new(format!("service.{name}.{key}"), found, "a service without a sweep"));
        }
    }
    Ok(())
}

/// Refuses a swept service that generates the candidates of a search.
fn refuse_generators(document: &Table, swept: &[SweptService]) -> Result<(), BadValue> {
    let searches = document.get("tune").and_then(|tune| tune.get("select")).and_then(Value::as_array);
    for (at, search) in searches.into_iter().flatten().enumerate() {
        let service = search.get("generate").and_then(|generate| generate.get("service")).and_then(Value::as_str);
        ensure(swept.iter().all(|swept| service != Some(&swept.name)), || {
            let found = format!("the swept service `{}`", service.unwrap_or_default());
            BadValue::new(format!("tune.select[{at}].generate.service"), found, "a service without a sweep")
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Job;
    use crate::job::sweep::configurations;
    use std::path::Path;

    const HEAD: &str = "name = \"t\"\n[dataset]\nformat = \"hotpotqa\"\nquestions = \"dev.json\"\n\
        [corpus]\nsource = \"contexts\"\n[service.sparse]\nkind = \"bm25\"\n[service.sparse.sweep]\n\
        k1 = [0.9, 1.2]\nb = [0.4, 0.75]\n[service.tfidf]\nkind = \"tfidf\"\n";

    fn parse(rest: &str, sets: &[&str]) -> Result<Job, String> {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        Job::parse(&format!("{HEAD}{rest}"), Path::new("job.toml"), &sets).map_err(|error| error.to_string())
    }

    #[test]
    fn a_swept_service_is_a_service_for_each_point() {
        let job = parse("[method.m]\nkind = \"one_step\"\nretriever = \"sparse\"\nk = 5\n", &[]).unwrap();
        let services: Vec<&str> = job.service.keys().map(String::as_str).collect();
        let points = ["b=0.4,k1=0.9", "b=0.4,k1=1.2", "b=0.75,k1=0.9", "b=0.75,k1=1.2"];
        let names = points.map(|point| format!("sparse{{{point}}}"));
        assert_eq!(services, [&names[..], &["tfidf".to_owned()]].concat());
        let found = configurations(&job);
        assert_eq!(
            found.iter().map(|point| point.name.clone()).collect::<Vec<_>>(),
            names.clone().map(|name| format!("m{{retriever={name}}}"))
        );
        assert_eq!(found[1].parameters, serde_json::json!({"retriever": names[1], "k": 5}));
        // The shown job parses to the same job.
        let shown = toml::to_string_pretty(&job).unwrap();
        let again = Job::parse(&shown, Path::new("job.toml"), &[]).unwrap();
        assert_eq!(configurations(&again), found);
        // Overrides come first.
        let job = parse("[method.m]\nkind = \"one_step\"\nretriever = \"sparse\"\n", &["service.sparse.sweep.b=[0.5]"]);
        assert_eq!(configurations(&job.unwrap()).len(), 2);
    }

    #[test]
    fn sweeps_and_conditions_may_name_a_swept_service() {
        let job = parse(
            "[method.m]\nkind = \"one_step\"\n[method.m.sweep]\nretriever = [\"tfidf\", \"sparse\"]\nk = [5, 20]\n\
             [method.m.sweep_when]\nk = { retriever = [\"sparse\"] }\n",
            &[],
        );
        let found = configurations(&job.unwrap());
        assert_eq!(found.len(), 9, "tfidf once, and four points of two lengths");
        assert!(found.iter().any(|point| point.name == "m{retriever=tfidf}"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let method = "[method.m]\nkind = \"one_step\"\nretriever = \"sparse\"\n";
        let message =
            |rest: &str, sets: &[&str]| parse(rest, sets).err().unwrap_or_else(|| panic!("{rest} is accepted"));
        for (rest, set, expected) in [
            (method, "service.sparse.sweep.k1=[]", "`service.sparse.sweep.k1` = []; allowed: a list with at least one"),
            (method, "service.sparse.sweep.k1=[1, 1]", "`service.sparse.sweep.k1` = 1 twice"),
            (method, "service.sparse.k1=1", "`service.sparse.sweep.k1` = swept, and a value in the service's table"),
            (method, "service.sparse.sweep={}", "`service.sparse.sweep.*` = no key"),
            (method, "service.sparse.sweep.k2=[1]", "unknown field `k2`"),
            (
                "[method.m]\nkind = \"tfidf_bm25\"\nretriever = \"sparse\"\nreranker = \"sparse\"\n",
                "name=t",
                "`method.m.reranker, retriever` = the swept service `sparse` in each; allowed: one parameter",
            ),
            (
                "[service.d]\nkind = \"dense\"\nencoder = \"sparse\"\n[method.m]\nkind = \"oracle\"\n",
                "name=t",
                "`service.d.encoder` = the swept service `sparse`; allowed: a service without a sweep",
            ),
        ] {
            let message = message(rest, &[set]);
            assert!(message.contains(expected), "{rest}, {set}: {message}");
        }
        let wide: Vec<String> = (0..1001).map(|value| value.to_string()).collect();
        let message = message(method, &[&format!("service.sparse.sweep.k1=[{}]", wide.join(","))]);
        assert!(message.contains("more than 1000 services"), "{message}");
    }
}
