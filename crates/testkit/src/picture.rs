//! Picture files that tests make up.

/// A Windows bitmap of 24 bits a pixel, whose pixels are `color(x, y)` in red, green and blue.
pub fn bitmap(width: u32, height: u32, color: impl Fn(u32, u32) -> [u8; 3]) -> Vec<u8> {
    const HEADER_BYTES: u32 = 54;
    let row_bytes = (3 * width).next_multiple_of(4);
    let mut file = Vec::with_capacity((HEADER_BYTES + row_bytes * height) as usize);
    file.extend(b"BM");
    for field in [HEADER_BYTES + row_bytes * height, 0, HEADER_BYTES, 40, width, height, 1 | 24 << 16, 0, 0, 0, 0, 0, 0]
    {
        file.extend(field.to_le_bytes());
    }
    // Rows come from the bottom, pixels blue first.
    for y in (0..height).rev() {
        for x in 0..width {
            let [red, green, blue] = color(x, y);
            file.extend([blue, green, red]);
        }
        file.resize(file.len() + (row_bytes - 3 * width) as usize, 0);
    }
    file
}
