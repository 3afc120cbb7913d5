// What a tab or a browser keeps by name. Where storage is forbidden, it lasts as long as the page.

class Kept {
  constructor(storage, name) {
    this.storage = storage;
    this.name = name;
    this.value = "";
  }

  get() {
    try {
      return this.storage().getItem(this.name) ?? "";
    } catch {
      return this.value;
    }
  }

  set(value) {
    this.value = value;
    try {
      if (value) this.storage().setItem(this.name, value);
      else this.storage().removeItem(this.name);
    } catch {
      // it is in this page alone
    }
  }
}

// The token is this tab's, and is gone with it.
export const token = new Kept(() => sessionStorage, "duramen-token");
export const theme = new Kept(() => localStorage, "duramen-theme");
