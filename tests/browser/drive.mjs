// Opens one page in headless Chromium, waits until it has put its result into `window.result`, and prints that.
// node drive.mjs ADDRESS SCREENSHOT CHROMIUM
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [address, screenshot, executablePath] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "browser-"));
const flags = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
try {
  // a new folder as its --user-data-dir: nothing of an earlier run is cached
  const browser = await chromium.launchPersistentContext(profile, { executablePath, headless: true, args: flags });
  try {
    const page = await browser.newPage();
    const said = [];
    page.on("console", (message) => said.push(message.text()));
    page.on("pageerror", (error) => said.push(String(error)));
    await page.goto(address);
    const result = await page.waitForFunction(() => window.result, null, { timeout: 60000 }).catch((error) => {
      throw new Error(`${error}\n${said.join("\n")}`);
    });
    await page.screenshot({ path: screenshot, fullPage: true });
    console.log(JSON.stringify({ result: await result.jsonValue(), said }));
  } finally {
    await browser.close();
  }
} finally {
  rmSync(profile, { recursive: true, force: true });
}
