// Spin burns time in iterators, generics and closures until its input ends.
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

trait Mix {
    fn mix(&self, seed: u32) -> u32;
}

struct Ring {
    items: Vec<u32>,
}

impl Mix for Ring {
    fn mix(&self, seed: u32) -> u32 {
        self.items.iter().fold(seed, |a, b| a.wrapping_mul(31).wrapping_add(b ^ (a >> 7)))
    }
}

#[inline(never)]
fn spin_turn(ring: &mut Ring, seed: u32) -> u32 {
    let n = ring.items.len();
    ring.items.rotate_left(seed as usize % n);
    ring.items.sort_by_key(|x| x.wrapping_mul(2654435761));
    ring.mix(seed)
}

#[inline(never)]
fn spin_words(seed: u32) -> u32 {
    seed.to_string().chars().filter(|c| *c == '1').count() as u32
}

static END: AtomicBool = AtomicBool::new(false);

fn main() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0u8; 1]);
        END.store(true, Ordering::Relaxed);
    });
    let mut ring = Ring { items: (1..512).collect() };
    let mut x = 1;
    while !END.load(Ordering::Relaxed) {
        x = spin_turn(&mut ring, x).wrapping_add(spin_words(x));
    }
    std::process::exit((x == 3) as i32);
}
