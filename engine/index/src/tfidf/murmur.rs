//! MurmurHash3_x86_32 with seed 0, DrQA's hash for n-grams (`sklearn.utils.murmurhash3_32`, unsigned).

pub(super) fn hash(bytes: &[u8]) -> u32 {
    let scramble = |k: u32| k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let mut h = 0u32;
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        let mut four = [0; 4];
        four.copy_from_slice(chunk);
        h ^= scramble(u32::from_le_bytes(four));
        h = h.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let mut tail = [0; 4];
    let rest = chunks.remainder();
    tail[..rest.len()].copy_from_slice(rest);
    h ^= scramble(u32::from_le_bytes(tail));
    h ^= bytes.len() as u32;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_those_of_sklearn() {
        // sklearn.utils.murmurhash3_32(text, positive=True) of scikit-learn 1.x.
        for (text, wanted) in [
            ("", 0),
            ("a", 1_009_084_850),
            ("abc", 3_017_643_002),
            ("hello", 613_153_351),
            ("hello world", 1_586_663_183),
            ("naïve café", 1_734_666_806),
            ("東京", 2_529_104_194),
            ("the quick brown", 3_087_764_690),
        ] {
            assert_eq!(super::hash(text.as_bytes()), wanted, "{text:?}");
        }
    }
}
