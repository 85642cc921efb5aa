//! The batch files of an endpoint's service: requests out, results in.
//!
//! ```text
//!   request --known by a line of FOLDER/NAME/results/*.jsonl?--> its answer, read as over HTTP
//!        \--no--> a line of FOLDER/NAME/requests/NNNN-ROUTE.jsonl, once: it waits
//! ```
//!
//! The line's `custom_id` is the request's key. So a result needs no list of what was asked: it is read exactly when
//! its request comes up, by the reader that a call over HTTP has, and answers the request whichever run wrote it. A
//! request whose line was written earlier and has no result yet is not written again: somebody may be paid for it. Who
//! has lost a file of requests removes it, and its requests are written anew.
//!
//! | module | content |
//! | --- | --- |
//! | `request_files` | files of requests within the batch API's limits; the requests written earlier |
//! | `result_files` | lines of results by key; reasons why lines are of no use |

mod request_files;
mod result_files;

use crate::error::JobError;
use crate::services::service::WaitingBatch;
use hopeval_endpoint::{CallEnd, EndpointCall, EndpointSettings, OfflineCall, OfflineEndpoint, ResultVerdict};
use hopeval_operators::RequestKey;
use request_files::RequestFiles;
use result_files::ResultFiles;
use rustc_hash::FxHashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The file with the reasons why lines of results were of no use, as of the last generation.
const PROBLEMS: &str = "unused-results.txt";

/// The batch files of one service, while a run uses them.
pub(super) struct BatchDesk {
    offline: OfflineEndpoint,
    name: String,
    folder: PathBuf,
    requests: RequestFiles,
    results: ResultFiles,
    /// Requests of this run that wait.
    waiting: FxHashSet<RequestKey>,
    /// Those of them whose lines were written by an earlier generation or another run.
    written_earlier: u64,
}

/// The state of one request.
pub(super) enum DeskAnswer {
    /// It has its end.
    Ended(Box<CallEnd>),
    /// It waits for a result.
    Waits,
}

impl BatchDesk {
    /// Opens the folder of a service, makes it where it is missing, and reads what stands in it.
    pub(super) fn open(name: &str, settings: &EndpointSettings, root: &Path) -> Result<Self, JobError> {
        let folder = root.join(name);
        Ok(Self {
            offline: OfflineEndpoint::new(settings),
            name: name.to_owned(),
            requests: RequestFiles::open(&folder.join("requests"))?,
            results: ResultFiles::open(&folder.join("results"))?,
            folder,
            waiting: FxHashSet::default(),
            written_earlier: 0,
        })
    }

    /// The answer by the results, or a line of requests.
    pub(super) fn ask(&mut self, key: &RequestKey, call: &EndpointCall) -> Result<DeskAnswer, JobError> {
        if self.waiting.contains(key) {
            return Ok(DeskAnswer::Waits);
        }
        let mut offline = match self.offline.prepare_call(call.clone()) {
            Ok(offline) => offline,
            Err(end) => return Ok(DeskAnswer::Ended(end)),
        };
        let id = blake3::Hash::from_bytes(key.0).to_hex();
        let results = self.results.take_results(&key.0)?;
        let mut ended = None;
        for line in &results {
            match &ended {
                Some((_, place)) => self.results.note(line.place, &format!("the request is answered by {place}")),
                None => match offline.read_result(&line.bytes) {
                    ResultVerdict::Ended(end) => ended = Some((end, self.results.place_name(line.place))),
                    ResultVerdict::Unusable(reason) => self.results.note(line.place, &reason),
                },
            }
        }
        if let Some((end, _)) = ended {
            return Ok(DeskAnswer::Ended(end));
        }
        self.write_request(key, &id, &mut offline, results.len())?;
        Ok(DeskAnswer::Waits)
    }

    /// Writes a request, unless a line of it has no result yet.
    fn write_request(
        &mut self,
        key: &RequestKey,
        id: &str,
        call: &mut OfflineCall,
        results: usize,
    ) -> Result<(), JobError> {
        self.waiting.insert(*key);
        if self.requests.times_written(&key.0) > results {
            self.written_earlier += 1;
            return Ok(());
        }
        self.requests.write_line(call.route_name(), &call.write_line(id))
    }

    /// Makes the written files whole, and says what waits.
    pub(super) fn close(self) -> Result<WaitingBatch, JobError> {
        let Self { name, folder, requests, results, waiting, written_earlier, .. } = self;
        let unasked = results.unasked(|key| requests.times_written(key) > 0);
        let problems = results.into_problems(unasked);
        let problem_file = folder.join(PROBLEMS);
        write_problems(&problem_file, &problems)?;
        Ok(WaitingBatch {
            service: name,
            waiting: waiting.len() as u64,
            written_earlier,
            files: requests.finish()?,
            results: folder.join("results"),
            problems,
            problem_file,
        })
    }
}

/// Writes the problems, one a line; no file for none.
fn write_problems(path: &Path, problems: &[String]) -> Result<(), JobError> {
    let done = match problems {
        [] => std::fs::remove_file(path).or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        }),
        problems => std::fs::write(path, problems.join("\n") + "\n"),
    };
    done.map_err(|source| JobError::Io { path: path.to_owned(), operation: "cannot be written", source })
}
