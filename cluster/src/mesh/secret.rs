//! Proves to the other side of a socket that this process knows the mesh's token, without sending it.
//!
//! Each side sends a random challenge. Both derive a session key from the secret, the hello and the challenges, and
//! each proves with it that it has the secret: a proof fits no other connection, no other hello and not the other side.
//! Messages after the handshake are neither signed nor encrypted.

use std::fmt;
use std::io::{self, Read};

/// Length of a challenge and of a proof in bytes.
pub(super) const PROOF: usize = 32;

/// A random number of one side of one connection.
pub(super) type HandshakeChallenge = [u8; PROOF];

/// The secret of a mesh: made of the token and of the list of hosts, the same in every process.
#[derive(Clone, PartialEq, Eq)]
pub struct MeshSecret([u8; 32]);

impl fmt::Debug for MeshSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MeshSecret")
    }
}

impl MeshSecret {
    /// The secret of the mesh of `hosts` with this token.
    pub fn derive(token: &str, hosts: &[String]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("hopeval mesh secret, version 3");
        for part in [token].into_iter().chain(hosts.iter().map(String::as_str)) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// The key of the connection with these bytes as its hello and this challenge of its acceptor.
    pub(super) fn session_key(&self, hello: &[u8], challenge: &HandshakeChallenge) -> SessionKey {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(hello).update(challenge);
        SessionKey(*hasher.finalize().as_bytes())
    }
}

/// The key of one connection, known to both sides if they have the same secret.
#[derive(Clone)]
pub(super) struct SessionKey([u8; 32]);

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

impl SessionKey {
    /// The connector's proof. `==` of hashes takes the same time wherever they differ.
    pub(super) fn connector_proof(&self) -> blake3::Hash {
        blake3::keyed_hash(&self.0, b"connector")
    }

    /// The acceptor's proof, which also protects its reply.
    pub(super) fn acceptor_proof(&self, reply: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(b"acceptor").update(reply);
        hasher.finalize()
    }
}

/// Random bytes of the system, fit for secrets.
pub(super) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0u8; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A token that nobody can guess, as text.
///
/// # Errors
/// The system has no random bytes.
pub fn random_token() -> io::Result<String> {
    Ok(blake3::Hash::from_bytes(random_bytes()?).to_hex().to_string())
}
