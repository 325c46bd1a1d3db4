// What each key does.
import { Dialog } from "./dialog";
import { allKeys, keycap } from "./keys";

export function Key({ of }: { of: string }) {
  return <kbd>{keycap(of)}</kbd>;
}

export function Help({ onClose }: { onClose: () => void }) {
  const parts = allKeys().filter((part) => part.bindings.length);
  return (
    <Dialog title="Keys" onClose={onClose} wide>
      <div class="keys">
        {parts.map((part) => (
          <section>
            <h3>{part.name}</h3>
            <dl>
              {part.bindings.map((binding) => (
                <>
                  <dt>
                    {binding.keys.map((key, i) => (
                      <>
                        {i > 0 && " or "}
                        <Key of={key} />
                      </>
                    ))}
                  </dt>
                  <dd>{binding.says}</dd>
                </>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
