//! [`WorkMeter`]: the time and the energy of a piece of the device's work.

use hopeval_device::energy::WorkPiece;
use hopeval_device::{Device, DeviceEnergy};
use std::time::{Duration, Instant};

/// Timing and energy of a finished piece of work.
pub(super) struct DeviceUsage {
    pub(super) begun: Instant,
    pub(super) ended: Instant,
    /// From its begin, or the end of the piece before it, to its end.
    pub(super) lasted: Duration,
    pub(super) busy: Duration,
    pub(super) energy_j: Option<f64>,
}

/// A piece of work under way.
pub(super) struct WorkMeter<'a> {
    pub(super) begun: Instant,
    /// The time since which the device works for this piece alone.
    since: Instant,
    energy: Option<WorkPiece<'a>>,
}

impl<'a> WorkMeter<'a> {
    /// Begins a piece of work on an idle device.
    pub(super) fn begin(device: &'a impl Device) -> Self {
        let begun = Instant::now();
        Self { begun, since: begun, energy: device.energy().map(DeviceEnergy::begin) }
    }

    /// Begins a piece of work that waits for the one before it; [`Self::follow`] tells it of its end.
    pub(super) fn begin_behind() -> Self {
        let begun = Instant::now();
        Self { begun, since: begun, energy: None }
    }

    /// The piece before this one has ended: time and energy count from now on.
    pub(super) fn follow(&mut self, device: &'a impl Device) {
        self.since = Instant::now();
        self.energy = device.energy().map(DeviceEnergy::begin);
    }

    /// Ends it. `busy` is the time that the device reports, without which it had all of the time.
    pub(super) fn end(self, device: &impl Device, busy: Option<Duration>) -> DeviceUsage {
        let ended = Instant::now();
        let lasted = ended - self.since;
        let whole = busy.unwrap_or(lasted);
        let (energy_j, prepared) = (self.energy.and_then(WorkPiece::end), device.take_preparation());
        let busy = whole.saturating_sub(prepared);
        // The preparation had its part of the energy.
        let part = if prepared.is_zero() { 1.0 } else { busy.as_secs_f64() / whole.as_secs_f64() };
        DeviceUsage { begun: self.begun, ended, lasted, busy, energy_j: energy_j.map(|joules| joules * part) }
    }
}

/// Runs a piece of work on the device, and measures it.
pub(super) fn measure_work<R: Send>(device: &impl Device, work: impl FnOnce() -> R + Send) -> (R, DeviceUsage) {
    let meter = WorkMeter::begin(device);
    let (done, busy) = device.run_timed(work);
    (done, meter.end(device, Some(busy)))
}
