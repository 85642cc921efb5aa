//! Names the committers of a run's log.

/// An id unique among all processes.
pub(crate) fn new_committer_id() -> String {
    let mut bytes = [0u8; 16];
    let read =
        std::fs::File::open("/dev/urandom").and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    if read.is_err() {
        let seed = format!("{}-{:?}", std::process::id(), std::time::SystemTime::now());
        return format!(
            "{:016x}",
            seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
        );
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
