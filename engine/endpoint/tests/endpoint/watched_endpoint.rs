//! An endpoint with short pauses, whose ends and faults a test waits for.

use hopeval_endpoint::{
    ApiKey, CallAnswer, CallEnd, CallFailure, CallVerdict, Endpoint, EndpointCall, EndpointFault, EndpointHost,
    EndpointSettings, GenerateCall,
};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The longest time of anything here.
const LONGEST: Duration = Duration::from_secs(20);

/// An endpoint under test.
pub(crate) struct WatchedEndpoint {
    pub(crate) endpoint: Endpoint,
    faults: Receiver<EndpointFault>,
    sender: Sender<(usize, CallEnd)>,
    ends: Receiver<(usize, CallEnd)>,
    called: usize,
}

/// Settings of one server, with pauses of milliseconds.
pub(crate) fn quick_settings(url: &str) -> EndpointSettings {
    EndpointSettings {
        first_pause_s: 0.005,
        longest_pause_s: 0.02,
        patience_s: 30.0,
        stall_s: Some(0.15),
        call_timeout_s: 5.0,
        ..EndpointSettings::new("m", url)
    }
}

impl WatchedEndpoint {
    pub(crate) fn open(settings: &EndpointSettings) -> Self {
        Self::open_with(settings, None, |host| host)
    }

    /// An endpoint with a key and a changed host.
    pub(crate) fn open_with(
        settings: &EndpointSettings,
        key: Option<ApiKey>,
        change: impl FnOnce(EndpointHost) -> EndpointHost,
    ) -> Self {
        let (fault_sender, faults) = channel();
        let fault_sender = std::sync::Mutex::new(fault_sender);
        let host = EndpointHost::open_host(move |fault| fault_sender.lock().unwrap().send(fault).unwrap());
        let endpoint = Endpoint::open("test", settings, key, change(host)).unwrap();
        let (sender, ends) = channel();
        Self { endpoint, faults, sender, ends, called: 0 }
    }

    /// Sends a call; its number.
    pub(crate) fn send(&mut self, call: impl Into<EndpointCall>) -> usize {
        let (number, sender) = (self.called, self.sender.clone());
        self.called += 1;
        // The test may be over when a late call ends.
        self.endpoint.call(call.into(), Box::new(move |end| drop(sender.send((number, end)))));
        number
    }

    /// The next end of a call.
    pub(crate) fn next_end(&self) -> (usize, CallEnd) {
        self.ends.recv_timeout(LONGEST).expect("a call ends")
    }

    /// The end of one call.
    pub(crate) fn end_of(&mut self, call: impl Into<EndpointCall>) -> CallEnd {
        self.send(call);
        self.next_end().1
    }

    /// The text of one user's message.
    pub(crate) fn ask(&mut self, text: &str) -> CallEnd {
        self.end_of(EndpointCall::Generate(GenerateCall::from_user(text)))
    }

    /// The fault of the endpoint.
    pub(crate) fn fault(&self) -> EndpointFault {
        self.faults.recv_timeout(LONGEST).expect("a fault is told")
    }

    /// Asserts that no call ends and no further fault is told.
    pub(crate) fn assert_quiet(&self) {
        let quiet = Duration::from_millis(60);
        assert_eq!(self.ends.recv_timeout(quiet).map(|_| ()), Err(RecvTimeoutError::Timeout));
        assert_eq!(self.faults.try_recv().ok(), None);
    }
}

/// The only choice's text.
pub(crate) fn text_of(end: &CallEnd) -> &str {
    match &end.verdict {
        CallVerdict::Answered(CallAnswer::Generated(choices)) if choices.len() == 1 => &choices[0].text,
        other => panic!("{other:?}"),
    }
}

/// The failure.
pub(crate) fn failure_of(end: &CallEnd) -> &CallFailure {
    match &end.verdict {
        CallVerdict::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}
