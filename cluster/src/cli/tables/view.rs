//! The view of a run's figures: which rows, in which order, against which columns.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hopeval_jobs::job::sweep::{Configuration, SweptName};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// Options for the table of a run's measures.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TableView {
    /// Sorts by this measure, the largest mean first; rows without a value come last.
    #[arg(long, value_name = "MEASURE", conflicts_with = "json")]
    pub(crate) sort: Option<String>,
    /// Shows this many rows of each table, the first ones.
    #[arg(long, value_name = "N", conflicts_with = "json")]
    pub(crate) top: Option<NonZeroUsize>,
    /// Shows these configurations alone: `configuration=NAME`, `method=KIND`, or a parameter's value, such as k=20; of
    /// several filters all must hold.
    #[arg(long = "filter", value_name = "KEY=VALUE", conflicts_with = "json")]
    pub(crate) filters: Vec<ConfigurationFilter>,
    /// Shows each measure over the strata of this kind, such as `hops`, in columns.
    #[arg(long, value_name = "KIND", conflicts_with_all = ["stratum", "against", "json"])]
    pub(crate) by: Option<String>,
    /// Prints the measures alone, with the best figure of each column bold; with --against, figures that differ at the
    /// 5 % level have a mark. CSV has numbers alone.
    #[arg(long, value_enum, conflicts_with = "json")]
    pub(crate) format: Option<TableFormat>,
}

impl TableView {
    /// Whether rows are sorted, cut or filtered.
    pub(crate) fn is_chosen(&self) -> bool {
        self.sort.is_some() || self.top.is_some() || !self.filters.is_empty()
    }
}

/// The formats of a table for a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// Markdown.
    Md,
    /// A `tabular` of LaTeX for each table.
    Latex,
    /// Comma-separated values with a header.
    Csv,
    /// A `<table>` of HTML for each table.
    Html,
}

/// A condition that shown configurations fulfil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigurationFilter {
    key: String,
    value: String,
}

impl FromStr for ConfigurationFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self { key: key.to_owned(), value: value.to_owned() }),
            _ => Err("expected KEY=VALUE, such as method=promptrank or k=20".to_owned()),
        }
    }
}

/// A configuration with its name in parts, where it is a point of a sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedConfiguration<'a> {
    /// Its place in the job's order.
    pub(crate) position: usize,
    pub(crate) configuration: &'a Configuration,
    pub(crate) parts: Option<&'a SweptName>,
}

impl NamedConfiguration<'_> {
    /// The texts that a key of a filter may have for this configuration.
    fn texts_of(&self, key: &str) -> Vec<String> {
        let Configuration { name, kind, parameters, .. } = self.configuration;
        match key {
            "configuration" => {
                let method = self.parts.map(|parts| parts.method.clone());
                [name.clone(), self.configuration.replicated_name().to_owned()].into_iter().chain(method).collect()
            }
            "method" => vec![kind.clone()],
            _ => {
                let swept = self.parts.into_iter().flat_map(|parts| &parts.values);
                let label = swept.filter(|(name, _)| name == key).map(|(_, label)| label.clone());
                let value =
                    parameters.get(key).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
                label.chain(value).collect()
            }
        }
    }

    /// The keys that a filter may name.
    fn keys(&self) -> impl Iterator<Item = String> {
        let parameters = self.configuration.parameters.as_object();
        let swept = self.parts.into_iter().flat_map(|parts| parts.values.iter().map(|(key, _)| key.clone()));
        let fixed: Vec<String> = parameters.into_iter().flat_map(serde_json::Map::keys).cloned().collect();
        ["configuration".to_owned(), "method".to_owned()].into_iter().chain(swept.collect::<Vec<_>>()).chain(fixed)
    }
}

/// The configurations that fulfil all filters.
///
/// # Errors
/// A filter that no configuration fulfils, with the values that its key has.
pub(crate) fn filtered<'a>(
    all: Vec<NamedConfiguration<'a>>,
    filters: &[ConfigurationFilter],
) -> Result<Vec<NamedConfiguration<'a>>> {
    let mut kept = all.clone();
    for ConfigurationFilter { key, value } in filters {
        kept.retain(|named| named.texts_of(key).iter().any(|text| text == value));
        if kept.is_empty() {
            let values: BTreeSet<String> =
                all.iter().filter_map(|named| named.texts_of(key).into_iter().next()).collect();
            if values.is_empty() {
                let keys: BTreeSet<String> = all.iter().flat_map(NamedConfiguration::keys).collect();
                bail!("--filter {key}={value}: no configuration has `{key}`; there are {}", listed(keys));
            }
            bail!("--filter {key}={value}: no configuration is left; `{key}` can be {}", listed(values));
        }
    }
    Ok(kept)
}

fn listed(names: BTreeSet<String>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn configuration(name: &str, kind: &str, parameters: Value) -> Configuration {
        Configuration { name: name.to_owned(), kind: kind.to_owned(), parameters, control: None, replicate: None }
    }

    #[test]
    fn filters_hold_for_names_kinds_and_values() {
        let configurations = [
            configuration("bm25{k=5}", "one_step", json!({"retriever": "sparse", "k": 5})),
            configuration("bm25{k=20}", "one_step", json!({"retriever": "sparse", "k": 20})),
            configuration("oracle", "oracle", json!({})),
        ];
        let parts = |k: &str| SweptName { method: "bm25".to_owned(), values: vec![("k".to_owned(), k.to_owned())] };
        let parts = [parts("5"), parts("20")];
        let all: Vec<NamedConfiguration<'_>> = configurations
            .iter()
            .enumerate()
            .map(|(position, configuration)| NamedConfiguration { position, configuration, parts: parts.get(position) })
            .collect();
        let kept = |filters: &[&str]| {
            let filters: Vec<ConfigurationFilter> = filters.iter().map(|filter| filter.parse().unwrap()).collect();
            let kept = filtered(all.clone(), &filters);
            kept.map(|kept| kept.iter().map(|named| named.position).collect::<Vec<_>>()).map_err(|e| e.to_string())
        };
        assert_eq!(kept(&[]), Ok(vec![0, 1, 2]));
        assert_eq!(kept(&["configuration=bm25", "k=20"]), Ok(vec![1]));
        assert_eq!(kept(&["method=one_step"]), Ok(vec![0, 1]));
        assert_eq!(kept(&["retriever=sparse", "k=5"]), Ok(vec![0]));
        assert_eq!(kept(&["k=7"]), Err("--filter k=7: no configuration is left; `k` can be 20, 5".to_owned()));
        let unknown = "--filter q=1: no configuration has `q`; there are configuration, k, method, retriever";
        assert_eq!(kept(&["q=1"]), Err(unknown.to_owned()));
        assert!("k".parse::<ConfigurationFilter>().is_err());
    }
}
