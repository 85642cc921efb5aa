//! Configurations: the points of a job's sweeps, named.
//!
//! A method without a sweep is one configuration of its own name. With a sweep each point is named
//! `method{a=1,b=x}`, keys sorted, and the points come in the order of the keys, the last varying fastest.

use crate::error::JobError;
use crate::job::Job;
use hopeval_methods::{Method, Setting, registry};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// Its unique name.
    pub name: String,
    /// The method's kind.
    pub kind: String,
    /// All parameters, the sweep's included.
    pub parameters: Value,
    /// What it is a control of, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
}

/// The configurations of a job, in the order of their methods' names.
pub fn configurations(job: &Job) -> Vec<Configuration> {
    let mut found = Vec::new();
    for (name, method) in &job.method {
        let fixed: Map<String, Value> = method.parameters.clone().into_iter().collect();
        let mut points = vec![(Vec::<String>::new(), fixed)];
        for (key, values) in &method.sweep {
            points = points
                .into_iter()
                .flat_map(|(labels, parameters)| {
                    values.iter().map(move |value| {
                        let (mut labels, mut parameters) = (labels.clone(), parameters.clone());
                        labels
                            .push(format!("{key}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
                        parameters.insert(key.clone(), value.clone());
                        (labels, parameters)
                    })
                })
                .collect();
        }
        found.extend(points.into_iter().map(|(labels, parameters)| Configuration {
            name: if labels.is_empty() { name.clone() } else { format!("{name}{{{}}}", labels.join(",")) },
            kind: method.kind.clone(),
            parameters: Value::Object(parameters),
            control: method.control.clone(),
        }));
    }
    found
}

/// The methods of `configurations`, in their order.
///
/// # Errors
/// [`JobError::Method`] names the configuration whose kind or parameters are wrong.
pub fn methods(configurations: &[Configuration], setting: &Setting) -> Result<Vec<Box<dyn Method>>, JobError> {
    let build = |c: &Configuration| {
        registry::build(&c.kind, &c.parameters, setting)
            .map_err(|source| JobError::Method { configuration: c.name.clone(), source })
    };
    configurations.iter().map(build).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(method: &str) -> Job {
        let text = format!("name = \"t\"\n[dataset]\nquestions = \"q\"\n[corpus]\nsource = \"c\"\n{method}");
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn sweeps_multiply_in_sorted_order() {
        let job = job(
            "[method.bm25]\nkind = \"one_step\"\nretriever = \"s\"\n[method.bm25.sweep]\nk = [5, 20]\nb = [\"x\", \"y\"]",
        );
        let names: Vec<_> = configurations(&job).into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["bm25{b=x,k=5}", "bm25{b=x,k=20}", "bm25{b=y,k=5}", "bm25{b=y,k=20}"]);
    }

    #[test]
    fn without_a_sweep_the_method_s_name_is_the_configuration_s() {
        let found = configurations(&job("[method.a]\nkind = \"given\"\nk = 3"));
        assert_eq!((found.len(), found[0].name.as_str()), (1, "a"));
        assert_eq!(found[0].parameters, serde_json::json!({"k": 3}));
    }
}
