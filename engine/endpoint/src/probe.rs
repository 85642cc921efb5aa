//! Asks a server for its abilities, with about twenty small requests, and reports what it does, refuses and silently
//! ignores.
//!
//! A field that a server ignores costs a 200 and gives a wrong answer, so each check looks at the answer, not at the
//! status. Nothing is retried: a probe of a server in trouble says so.

mod generation;
mod prompts;
mod report;
mod server;

pub use report::{ProbeCheck, ProbeFinding, ProbeReport};

use crate::error::EndpointError;
use crate::key::ApiKey;
use crate::settings::EndpointSettings;
use server::ProbedServer;

/// Probes the first replica of an endpoint, and waits for the report.
///
/// # Errors
/// [`EndpointError`]: wrong settings. A server that does not answer is a report, too.
pub fn probe_server(settings: &EndpointSettings, key: Option<&ApiKey>) -> Result<ProbeReport, EndpointError> {
    settings.check()?;
    let mut server = ProbedServer::connect(settings, key)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(EndpointError::Thread)?;
    let checks = runtime.block_on(async {
        let mut checks = prompts::check_server(&mut server).await;
        checks.extend(generation::check_generation(&mut server).await);
        checks.extend(prompts::check_prompts(&mut server).await);
        checks
    });
    Ok(server.into_report(checks))
}
