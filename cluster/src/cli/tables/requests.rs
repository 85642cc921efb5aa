//! The requests of a planned job.

use super::{UNKNOWN, markdown_table};
use hopeval_jobs::report::plan::JobPlan;
use std::collections::BTreeSet;

/// Services and kinds in rows; tokens in columns if the job has models.
pub(crate) fn request_table(plan: &JobPlan) -> String {
    let names: BTreeSet<&String> = plan.first_round.keys().chain(plan.estimated.keys()).collect();
    let has_models = !plan.estimated_tokens.is_empty();
    let rows = names.into_iter().map(|name| {
        let first = plan.first_round.get(name).copied().unwrap_or_default();
        let known = |n: Option<u64>| n.map_or(UNKNOWN.to_owned(), |n| n.to_string());
        let tokens = plan.estimated_tokens.get(name);
        let mut cells = vec![name.clone()];
        cells.extend([first.asked, first.unique, first.journalled].map(|n| n.to_string()));
        let sampled = plan.sampled.get(name);
        cells.push(sampled.map_or(UNKNOWN.to_owned(), |all| format!("{} of {}", all.journalled, all.unique)));
        // The answers before these requests were guessed so that a question goes on for as long as it may.
        let bound = if plan.guessed.contains(name) { "about " } else { "" };
        let estimate = |n: Option<u64>| n.map_or(UNKNOWN.to_owned(), |n| format!("{bound}{n}"));
        cells.push(estimate(plan.estimated.get(name).copied()));
        if has_models {
            cells.push(estimate(tokens.map(|t| t.prompt)));
            cells.push(known(tokens.map(|t| t.completion)));
            cells.push(estimate(tokens.map(|t| t.scored)));
        }
        cells
    });
    let mut header =
        vec!["requests", "first round", "unique", "in the journal", "sample in the journal", "all rounds (estimate)"];
    if has_models {
        header.extend(["prompt tokens", "written at most", "scored tokens"]);
    }
    markdown_table(&header, rows)
}
