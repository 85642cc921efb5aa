//! [`Endpoint`]: takes calls from any thread and answers them on its own.

use crate::answer::CallEnd;
use crate::attempt::{EndpointShared, prepare_call, run_call};
use crate::call::EndpointCall;
use crate::error::EndpointError;
use crate::flow::FlowGate;
use crate::host::EndpointHost;
use crate::key::ApiKey;
use crate::patience::watch_patience;
use crate::pause::PauseRule;
use crate::probe::{ProbeReport, probe_server};
use crate::settings::EndpointSettings;
use crate::transport::ReplicaTransport;
use crate::usage::{EndpointUsage, UsageCounters};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;
use tokio::runtime::Runtime;

/// An endpoint: one for each process and service. Clones share its limits and connections.
///
/// The last clone ends it: calls without an answer are dropped, requests in flight are broken off.
#[derive(Clone)]
pub struct Endpoint {
    shared: Arc<EndpointShared>,
    runtime: Arc<EndpointRuntime>,
}

/// The runtime with the endpoint's thread.
struct EndpointRuntime(Option<Runtime>);

impl Drop for EndpointRuntime {
    fn drop(&mut self) {
        // It may be dropped by a call's end, on its own thread, which must not wait for itself.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Endpoint {
    /// Checks the settings and starts the endpoint's thread. Nothing is sent.
    ///
    /// # Errors
    /// [`EndpointError`].
    pub fn open(
        name: &str,
        settings: &EndpointSettings,
        key: Option<ApiKey>,
        host: EndpointHost,
    ) -> Result<Self, EndpointError> {
        settings.check()?;
        let addresses = settings.addresses()?;
        let build = |address| ReplicaTransport::build(settings, address, key.as_ref());
        let replicas = addresses.iter().map(build).collect::<Result<Vec<_>, _>>()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("hopeval-endpoint")
            .enable_all()
            .build()
            .map_err(EndpointError::Thread)?;
        let gate = {
            let _entered = runtime.enter();
            FlowGate::new(settings, replicas.len())
        };
        let shared = Arc::new(EndpointShared {
            name: name.to_owned(),
            pauses: PauseRule {
                first: Duration::from_secs_f64(settings.first_pause_s),
                longest: Duration::from_secs_f64(settings.longest_pause_s),
            },
            settings: settings.clone(),
            replicas,
            key,
            gate,
            answering: Default::default(),
            host,
            usage: UsageCounters::new(),
            faulted: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            prompt_excess: AtomicU64::new(0),
        });
        runtime.spawn(watch_patience(shared.clone()));
        Ok(Self { shared, runtime: Arc::new(EndpointRuntime(Some(runtime))) })
    }

    /// Takes a call, and writes its body on the caller's thread. It never blocks. `done` gets the call's end, once, on
    /// the endpoint's thread: it must not block. Of a generation of several choices it gets each part when it comes
    /// ([`crate::CallVerdict::Part`]). A call that the run's drain or a fault of the endpoint keeps from its answer, or
    /// from the rest of it, never ends.
    pub fn call(&self, call: EndpointCall, done: Box<dyn FnMut(CallEnd) + Send>) {
        self.shared.usage.count_call();
        if let Some(runtime) = &self.runtime.0 {
            runtime.spawn(run_call(self.shared.clone(), prepare_call(&self.shared, call), done));
        }
    }

    /// The counters.
    pub fn usage(&self) -> EndpointUsage {
        self.shared.usage.snapshot(self.shared.gate.load())
    }

    /// Probes the first replica of an endpoint, and waits for the report ([`probe_server`]).
    ///
    /// # Errors
    /// [`EndpointError`]: wrong settings. A server that does not answer is a report, too.
    pub fn probe(settings: &EndpointSettings, key: Option<&ApiKey>) -> Result<ProbeReport, EndpointError> {
        probe_server(settings, key)
    }

    /// The settings.
    pub fn settings(&self) -> &EndpointSettings {
        &self.shared.settings
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
