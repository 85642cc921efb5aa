//! Logs the use of this process's CUDA boards.

use hopeval_cuda::boards;

/// Logs utilisation and memory of each board.
pub(super) fn log() {
    for board in boards::opened_boards() {
        let seen = board.observed_load();
        // Samples are at least a second apart, so shorter work has none.
        if seen.memory > 0 {
            let utilisation = seen.utilisation().map(|percent| percent.round());
            let (memory_peak, memory) = (seen.memory_peak, seen.memory);
            tracing::info!(device = board.name(), utilisation, memory_peak, memory, "the GPU while it was used");
        }
    }
}
