//! Lines on a recording terminal, and silence without a terminal.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::TermLike;

use super::*;

/// A terminal that records the written text, without cursor movements.
#[derive(Debug, Clone, Default)]
struct Paper(Arc<Mutex<String>>);

impl TermLike for Paper {
    fn width(&self) -> u16 {
        120
    }
    fn move_cursor_up(&self, _n: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_down(&self, _n: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_right(&self, _n: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_left(&self, _n: usize) -> io::Result<()> {
        Ok(())
    }
    fn write_line(&self, s: &str) -> io::Result<()> {
        self.write_str(s)?;
        self.write_str("\n")
    }
    fn write_str(&self, s: &str) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(s);
        Ok(())
    }
    fn clear_line(&self) -> io::Result<()> {
        self.write_str("\n")
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

fn drawn(look: ProgressLook, run: impl FnOnce(&Progress)) -> String {
    let paper = Paper::default();
    let target = ProgressDrawTarget::term_like(Box::new(paper.clone()));
    run(&Progress { lines: MultiProgress::with_draw_target(target), look });
    let text = paper.0.lock().unwrap();
    text.clone()
}

#[test]
fn who_sees_progress() {
    assert_eq!(choose_look(true, Some("xterm"), false), ProgressLook::Coloured);
    assert_eq!(choose_look(true, None, true), ProgressLook::Plain);
    assert_eq!(choose_look(true, Some("dumb"), false), ProgressLook::Hidden);
    assert_eq!(choose_look(false, Some("xterm"), false), ProgressLook::Hidden);
}

#[test]
fn a_stage_shows_how_far_it_is_and_ends_with_its_time() {
    // The end of a stage is always drawn, also one that comes early; the rest as often as the terminal likes.
    let early = drawn(ProgressLook::Plain, |progress| {
        let stage = progress.shared_stage("evaluate");
        std::thread::scope(|scope| {
            scope.spawn(|| stage.set_share(0.25));
        });
        stage.set_text("405 of 7405 outcomes; about 3 min left");
    });
    assert!(early.contains("evaluate       ===="), "{early}");
    assert!(early.contains(" 405 of 7405 outcomes; about 3 min left"), "{early}");
    let done = drawn(ProgressLook::Plain, |progress| {
        let stage = progress.stage("questions", "questions");
        stage.set(7405);
        stage.bar.clone().with_elapsed(Duration::from_secs(61));
        stage.finish();
    });
    assert!(done.contains("questions      7,405 questions in 61s"), "{done}");
    // A stage that took no time is no news.
    let short = drawn(ProgressLook::Plain, |progress| progress.stage("model scorer", "").finish());
    assert!(!short.contains(" in 0s"), "{short}");
    let uncounted = drawn(ProgressLook::Plain, |progress| {
        for stage in [progress.stage("model scorer", ""), progress.shared_stage("evaluate")] {
            stage.set_share(0.0);
            stage.bar.clone().with_elapsed(Duration::from_secs(9));
            stage.finish();
        }
    });
    assert!(uncounted.contains("model scorer   in 9s") && uncounted.contains("evaluate       in 9s"), "{uncounted}");
}

#[test]
fn a_stage_of_unknown_length_has_no_bar() {
    let text = drawn(ProgressLook::Coloured, |progress| {
        let stage = progress.stage("corpus", "passages");
        stage.inc(5_233_329);
    });
    assert!(text.contains("5,233,329 passages, ") && !text.contains('='), "{text}");
}

#[test]
fn every_template_is_one_that_indicatif_knows() {
    for line in [LineTemplate::Share, LineTemplate::Open, LineTemplate::Done] {
        for look in [ProgressLook::Plain, ProgressLook::Coloured] {
            let text = drawn(look, |progress| {
                let stage = progress.stage("x", "units");
                stage.bar.set_style(style(look, line));
            });
            assert!(text.contains("units") && !text.contains('{'), "{text}");
        }
    }
}

#[test]
fn hidden_progress_counts_all_the_same() {
    let progress = Progress::hidden();
    let stage = progress.stage("questions", "questions");
    stage.inc(2);
    assert_eq!(format!("{stage:?}"), "Stage { at: 2, of: None }");
    assert_eq!(progress.suspend(|| 5), 5);
}

#[test]
fn rates_are_short() {
    assert_eq!([0.254, 12.6, 999.0, 52_345.0].map(rate), ["0.25", "13", "999", "52.3k"]);
}

#[test]
fn a_log_has_the_state_as_plain_text() {
    let after = Duration::from_secs(90);
    let text = "119 of 598 outcomes; about 6 min left";
    assert_eq!(plain_text(None, text, after), format!("{text} after 90 s"));
    assert_eq!(plain_text(Some(4096), "passages", after), "4096 passages after 90 s");
    assert_eq!(plain_text(None, "", after), "after 90 s");
}
