//! The stages of a command: one line of progress each, or a plain line every 30 s where nothing is drawn.

use crate::print;
use hopeval_cluster::progress::{Progress, ProgressStage};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The stages of a command, one after the other.
pub(crate) struct CommandStages {
    progress: Progress,
    current: Arc<Mutex<Option<(String, ProgressStage)>>>,
    done: Arc<AtomicBool>,
}

/// Interval of plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(30);

/// Pause between two reads of a followed count.
const LOOK: Duration = Duration::from_millis(200);

impl CommandStages {
    pub(crate) fn new() -> Self {
        let stages = Self::with_progress(Progress::on_stderr());
        if stages.progress.is_hidden() {
            stages.print_lines();
        }
        stages
    }

    /// Stages that nobody sees: another process of the run reports.
    pub(crate) fn silent() -> Self {
        Self::with_progress(Progress::hidden())
    }

    fn with_progress(progress: Progress) -> Self {
        Self { progress, current: Arc::default(), done: Arc::default() }
    }

    /// Prints the state of the current stage at every [`PLAIN_EVERY`], until the end.
    fn print_lines(&self) {
        let (current, done) = (Arc::clone(&self.current), Arc::clone(&self.done));
        let print_lines = move || {
            let mut printed = Instant::now();
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
                if printed.elapsed() < PLAIN_EVERY {
                    continue;
                }
                printed = Instant::now();
                if let Some((name, stage)) = current.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                    print::note(&format!("{name}: {}", stage.plain_text()));
                }
            }
        };
        // Without the thread only the lines are lost.
        drop(std::thread::Builder::new().name("progress lines".to_owned()).spawn(print_lines));
    }

    /// Shows the progress of a stage; a new name begins a new line.
    pub(crate) fn tick(&self, name: &str, done: u64) {
        self.enter_stage(name, None);
        if let Some((_, stage)) = self.current.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            stage.set(done);
        }
    }

    fn enter_stage(&self, name: &str, total: Option<u64>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|(now, _)| now != name) {
            if let Some((_, stage)) = current.take() {
                stage.finish();
            }
            *current = Some((name.to_owned(), self.progress.stage(name, total, "")));
        }
    }

    /// Shows a count raised by other threads, with the text behind it, until the next stage or the end.
    pub(crate) fn follow_count(&self, name: &str, total: u64, count: impl Fn() -> (u64, String) + Send + 'static) {
        self.enter_stage(name, Some(total));
        let (current, done, name) = (Arc::clone(&self.current), Arc::clone(&self.done), name.to_owned());
        let follow = move || {
            while !done.load(Ordering::Relaxed) {
                match current.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
                    Some((now, stage)) if *now == name => {
                        let (done, text) = count();
                        stage.set(done);
                        stage.set_text(&text);
                    }
                    _ => return,
                }
                std::thread::sleep(LOOK);
            }
        };
        // Without the thread only the progress line is lost.
        drop(std::thread::Builder::new().name("progress".to_owned()).spawn(follow));
    }

    /// Ends the last stage, before results are printed.
    pub(crate) fn clear(&self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some((_, stage)) = self.current.lock().unwrap_or_else(PoisonError::into_inner).take() {
            stage.finish();
        }
    }
}

impl Drop for CommandStages {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}
