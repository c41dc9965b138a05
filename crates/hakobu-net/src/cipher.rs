//! Chooses the cipher of data connections: times each one on both hosts, for milliseconds, and takes the fastest.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use hakobu_core::units::format_rate;
use hakobu_proto::control::{Cipher, CipherSpeed};

use hakobu_core::request::CipherChoice;

/// The content of a TLS record in bytes, which is encrypted at once.
const RECORD_BYTES: usize = 16 * 1024;
/// The number of records that are timed at once. They stay in a core's cache, as the data of a run does.
const RECORDS: usize = 8;
/// The number of turns of each cipher. The best one counts, because other processes can only make a turn slower.
const TURNS: usize = 4;
/// The time after which no further turn begins: a processor without AES instructions is slow.
const LIMIT: Duration = Duration::from_millis(6);

/// Returns the bytes per second that one core of this host encrypts with each cipher. Measured once.
pub fn here() -> CipherSpeed {
    static SPEED: OnceLock<CipherSpeed> = OnceLock::new();
    *SPEED.get_or_init(measured)
}

/// Starts the measurement on a separate thread, so that the result is ready when it is needed.
pub fn begin() {
    let _when_asked_for = std::thread::Builder::new().name("cipher speed".to_owned()).spawn(here);
}

fn measured() -> CipherSpeed {
    let mut content = vec![0x5a; RECORD_BYTES];
    let algorithms = [&AES_128_GCM, &AES_256_GCM, &CHACHA20_POLY1305];
    let keys = algorithms.map(key);
    let mut best = [Duration::MAX; 3];
    let began = Instant::now();
    for turn in 0..TURNS {
        for (key, best) in keys.iter().zip(&mut best) {
            if let Some(key) = key {
                *best = turn_of(key, &mut content).min(*best);
            }
        }
        if turn > 0 && began.elapsed() > LIMIT {
            break;
        }
    }
    let [aes_128_gcm, aes_256_gcm, chacha20_poly1305] = best.map(bytes_per_second);
    CipherSpeed { aes_128_gcm, aes_256_gcm, chacha20_poly1305 }
}

/// Returns a key that is used only for timing.
fn key(algorithm: &'static Algorithm) -> Option<LessSafeKey> {
    let bytes = vec![7; algorithm.key_len()];
    UnboundKey::new(algorithm, &bytes).ok().map(LessSafeKey::new)
}

fn turn_of(key: &LessSafeKey, content: &mut [u8]) -> Duration {
    let began = Instant::now();
    for _ in 0..RECORDS {
        // The output is discarded, so reusing a nonce does no harm.
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        if key.seal_in_place_separate_tag(nonce, Aad::empty(), content).is_err() {
            return Duration::MAX;
        }
    }
    began.elapsed()
}

fn bytes_per_second(turn: Duration) -> u64 {
    match turn {
        Duration::MAX => 0,
        turn => ((RECORD_BYTES * RECORDS) as f64 / turn.as_secs_f64().max(1e-9)) as u64,
    }
}

/// The factor by which a cipher must be faster than those before it: on a busy host no timing is accurate.
const WORTH: f64 = 1.1;

/// Returns the fastest cipher, judged by the slower of the two hosts, and the figures that support the choice.
pub fn fastest(source: CipherSpeed, target: CipherSpeed) -> (Cipher, String) {
    let speeds = |of: CipherSpeed| {
        [
            (Cipher::Aes128Gcm, of.aes_128_gcm),
            (Cipher::Chacha20Poly1305, of.chacha20_poly1305),
            (Cipher::Aes256Gcm, of.aes_256_gcm),
        ]
    };
    let mut best = (Cipher::Aes128Gcm, 0);
    let mut figures = Vec::new();
    for ((cipher, at_source), (_, at_target)) in speeds(source).into_iter().zip(speeds(target)) {
        let slower = at_source.min(at_target);
        if slower as f64 > best.1 as f64 * WORTH {
            best = (cipher, slower);
        }
        let [at_source, at_target] = [at_source, at_target].map(|speed| format_rate(speed as f64));
        figures.push(format!("{} {at_source} and {at_target}", name(cipher)));
    }
    let why = format!("what one core does at the source and at the target: {}", figures.join(", "));
    (best.0, why)
}

/// Returns the name of a cipher on the command line and in reports.
pub fn name(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Aes128Gcm => CipherChoice::Aes128Gcm,
        Cipher::Aes256Gcm => CipherChoice::Aes256Gcm,
        Cipher::Chacha20Poly1305 => CipherChoice::ChaCha20Poly1305,
        Cipher::None => CipherChoice::None,
    }
    .name()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_AES: CipherSpeed =
        CipherSpeed { aes_128_gcm: 5_000, aes_256_gcm: 4_000, chacha20_poly1305: 1_500 };
    const WITHOUT: CipherSpeed = CipherSpeed { aes_128_gcm: 200, aes_256_gcm: 150, chacha20_poly1305: 1_000 };

    #[test]
    fn the_slower_machine_decides() {
        let chosen = |source, target| fastest(source, target).0;
        assert_eq!(chosen(WITH_AES, WITH_AES), Cipher::Aes128Gcm);
        assert_eq!(chosen(WITH_AES, WITHOUT), Cipher::Chacha20Poly1305);
        assert_eq!(chosen(WITHOUT, WITH_AES), Cipher::Chacha20Poly1305);
        // Noise does not change the choice.
        let noise = CipherSpeed { aes_256_gcm: 5_400, ..WITH_AES };
        assert_eq!(chosen(noise, noise), Cipher::Aes128Gcm);
        // A host that reports no speeds.
        assert_eq!(chosen(CipherSpeed::default(), WITHOUT), Cipher::Aes128Gcm);
    }

    #[test]
    fn the_reason_has_the_figures_of_both() {
        let why = fastest(WITH_AES, WITHOUT).1;
        assert!(why.contains("aes-128-gcm 5.00 kB/s and 200 B/s, chacha20-poly1305 1.50 kB/s and"), "{why}");
    }

    #[test]
    fn every_cipher_is_timed() {
        let CipherSpeed { aes_128_gcm, aes_256_gcm, chacha20_poly1305 } = here();
        for speed in [aes_128_gcm, aes_256_gcm, chacha20_poly1305] {
            assert!((1_000_000..1_000_000_000_000).contains(&speed), "{speed} bytes a second");
        }
    }
}
