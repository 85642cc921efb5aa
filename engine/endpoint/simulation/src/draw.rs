//! Draws: numbers that look random and are functions of what they are drawn for.
//!
//! Nothing here knows the time or an order of calls. A draw is the start of a BLAKE3 hash over the seed, a label and
//! its parts.

/// The 64 bits of a draw. `label` separates draws for different purposes.
pub(crate) fn draw_bits(seed: u64, label: &str, parts: &[&[u8]]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(label.as_bytes());
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    u64::from_le_bytes(first)
}

/// A draw as a number in [0, 1).
pub(crate) fn unit_draw(seed: u64, label: &str, parts: &[&[u8]]) -> f64 {
    as_unit(draw_bits(seed, label, parts))
}

/// A standard normal draw (Box and Muller, Ann. Math. Statist. 29, 1958).
pub(crate) fn normal_draw(seed: u64, label: &str, parts: &[&[u8]]) -> f64 {
    let bits = draw_bits(seed, label, parts);
    // 1 - u is never 0.
    let (u, v) = (1.0 - as_unit(bits), as_unit(bits.rotate_left(32)));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// The upper 53 bits as a fraction.
fn as_unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
