//! Says what a run by batch files waits for, and which results were of no use.

use crate::print;
use hopeval_jobs::services::service::WaitingBatch;

/// The most lines of results that are named on the terminal.
const MOST_NAMED: usize = 20;

/// Prints the state of each service's batch files. Whether requests wait for results.
pub(super) fn print_batches(run: &str, batches: &[WaitingBatch]) -> bool {
    for batch in batches {
        print_problems(batch);
        if batch.waiting > 0 {
            print::note(&waiting_text(batch));
        }
    }
    let waits = batches.iter().any(|batch| batch.waiting > 0);
    if waits {
        print::note(&format!(
            "hint: have each file answered, by a provider's batch API or `vllm run-batch -i REQUESTS -o RESULTS`, and \
             put the results into that folder as `*.jsonl`; then `hopeval resume {run}` goes on"
        ));
    }
    waits
}

/// Prints the first lines of results that are of no use; all of them stand in a file.
fn print_problems(batch: &WaitingBatch) {
    for problem in batch.problems.iter().take(MOST_NAMED) {
        print::note(&format!("warning: {problem}"));
    }
    if batch.problems.len() > MOST_NAMED {
        let more = batch.problems.len() - MOST_NAMED;
        let file = batch.problem_file.display();
        print::note(&format!("warning: {more} more lines of results are of no use; all of them stand in {file}"));
    }
}

/// The requests of one service that wait.
fn waiting_text(batch: &WaitingBatch) -> String {
    let WaitingBatch { service, waiting, written_earlier, files, results, .. } = batch;
    let mut text = format!("[service.{service}] {waiting} requests wait for results in {}", results.display());
    if !files.is_empty() {
        let names: Vec<String> = files.iter().map(|file| format!("  {}", file.display())).collect();
        text += &format!("; {} of them are written now:\n{}", waiting - written_earlier, names.join("\n"));
    }
    if *written_earlier > 0 {
        text += &format!(
            "\n{written_earlier} of them stand in files from before without a result; a file that nobody answers any \
             more must be removed, and its requests are written anew"
        );
    }
    text
}
