// A plugin of TypeDoc that leaves out members that are inherited from a class or interface of the
// reference: each is described once.

import { Converter } from 'typedoc'

/** Registers the plugin. */
export function load(app) {
  // After TypeDoc has marked inherited members (priority 0), and before it groups members (-100).
  const priority = -10
  app.converter.on(Converter.EVENT_RESOLVE_END, ({ project }) => {
    const inherited = Object.values(project.reflections).filter((reflection) => reflection.inheritedFrom?.reflection)
    for (const reflection of inherited) project.removeReflection(reflection)
  }, priority)
}
