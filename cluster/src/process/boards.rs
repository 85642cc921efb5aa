//! Logs what the boards of this process did; they are CUDA's.

use hopeval_cuda::boards;

/// Says how busy and how full they were.
pub(super) fn log() {
    for board in boards::all() {
        let seen = board.seen();
        // Less than a second of work was not looked at.
        if seen.memory > 0 {
            let utilisation = seen.utilisation().map(|percent| percent.round());
            let (memory_peak, memory) = (seen.memory_peak, seen.memory);
            tracing::info!(device = board.name(), utilisation, memory_peak, memory, "the GPU while it was used");
        }
    }
}
