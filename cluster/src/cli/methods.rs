//! `methods`: the methods and judges of a job, and their parameters.

use crate::print;
use anyhow::{Result, bail};
use clap::Args;
use hopeval_cluster::exit;
use hopeval_methods::{MethodInfo, ParameterInfo, authors_code, judge_kinds, method_kinds};
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(crate) struct MethodsArguments {
    /// Methods or judges, by the names of a job's `kind`: shows their parameters. All when left out, one a line.
    names: Vec<String>,
    /// Prints one JSON document, with all parameters.
    #[arg(long)]
    json: bool,
}

pub(crate) fn methods(arguments: &MethodsArguments) -> Result<u8> {
    let chosen = choose_kinds(&arguments.names)?;
    if arguments.json {
        let of_kind = |judges: bool| {
            let infos = chosen.iter().filter(|kind| kind.is_judge == judges);
            infos.map(|kind| method_document(kind.info)).collect::<Vec<_>>()
        };
        print::line(&json!({ "methods": of_kind(false), "judges": of_kind(true) }).to_string());
    } else if arguments.names.is_empty() {
        print_list(&chosen);
    } else {
        let texts: Vec<String> = chosen.iter().map(|kind| method_text(kind.info)).collect();
        print::paragraph(&texts.join("\n\n"));
    }
    Ok(exit::DONE)
}

/// A method or a judge.
struct ChosenKind {
    info: &'static MethodInfo,
    is_judge: bool,
}

/// The named kinds in the order of the names; all without names.
fn choose_kinds(names: &[String]) -> Result<Vec<ChosenKind>> {
    let all = || {
        let methods = method_kinds().iter().map(|info| ChosenKind { info, is_judge: false });
        methods.chain(judge_kinds().iter().map(|info| ChosenKind { info, is_judge: true }))
    };
    if names.is_empty() {
        return Ok(all().collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        match all().find(|kind| kind.info.kind == name) {
            Some(kind) => chosen.push(kind),
            None => {
                let allowed: Vec<&str> = all().map(|kind| kind.info.kind).collect();
                bail!("no method or judge is called `{name}`; allowed: {}", allowed.join(", "));
            }
        }
    }
    Ok(chosen)
}

/// Prints a line for each kind; a name is never cut, and a description goes on below its beginning.
fn print_list(kinds: &[ChosenKind]) {
    let indent = kinds.iter().map(|kind| kind.info.kind.len()).max().unwrap_or(0) + 2;
    for (judges, title) in [(false, "Methods"), (true, "Judges")] {
        let lines = kinds.iter().filter(|kind| kind.is_judge == judges);
        let lines = lines.map(|kind| hanging_line(kind.info.kind, kind.info.description, indent, print::line_width()));
        print::line(&format!("{title}, by the names of a job's `kind`:\n\n{}\n", lines.collect::<Vec<_>>().join("\n")));
    }
    print::paragraph(
        "`hopeval methods NAME` shows the parameters of one. Each may have several values, in [method.NAME.sweep].",
    );
}

/// A name, and a text that begins in column `indent` and is broken between words at `width`.
fn hanging_line(name: &str, text: &str, indent: usize, width: Option<usize>) -> String {
    let mut line = format!("{name:<indent$}");
    let mut used = indent;
    for (n, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if n > 0 && width.is_some_and(|width| used + 1 + length > width) {
            line.push_str(&format!("\n{:indent$}", ""));
            used = indent;
        } else if n > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    line
}

/// A method with its parameters, as text.
fn method_text(info: &MethodInfo) -> String {
    let mut text = format!("{}: {}.\nFrom: {}.", info.kind, info.description, info.paper);
    if info.parameters.is_empty() {
        text.push_str("\n\nIt has no parameters.");
    }
    for parameter in info.parameters {
        text.push_str(&format!("\n\n{}: {}; {}", parameter.name, parameter.values, default_text(parameter)));
        text.push_str(&format!("\n    {}", parameter.documentation));
    }
    let code = authors_code(info.kind);
    if !code.is_empty() {
        let values: Vec<String> = code.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        text.push_str(
            "\n\nas: \"paper\" or \"code\"; default: \"paper\"\n    With \"code\", the defaults are those of ",
        );
        text.push_str(&format!("the authors' code, where it differs from the paper: {}.", values.join(", ")));
    }
    text
}

fn default_text(parameter: &ParameterInfo) -> String {
    match parameter.default {
        None => "must be given".to_owned(),
        Some("null") => "not set unless given".to_owned(),
        Some(default) => format!("default: {default}"),
    }
}

fn method_document(info: &MethodInfo) -> Value {
    let as_json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| text.into());
    let parameters = info.parameters.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "values": parameter.values,
            "required": parameter.default.is_none(),
            "default": parameter.default.map(as_json),
            "documentation": parameter.documentation,
        })
    });
    let code = authors_code(info.kind).iter().map(|(name, value)| ((*name).to_owned(), as_json(value)));
    json!({
        "kind": info.kind,
        "description": info.description,
        "from": info.paper,
        "parameters": parameters.collect::<Vec<_>>(),
        "as_code": code.collect::<serde_json::Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_go_on_below_their_beginning() {
        assert_eq!(hanging_line("bm25", "one two three", 6, None), "bm25  one two three");
        assert_eq!(hanging_line("bm25", "one two three", 6, Some(13)), "bm25  one two\n      three");
        assert_eq!(hanging_line("bm25", "longest", 6, Some(8)), "bm25  longest", "a word is never cut");
    }
}
